#pragma once

#include <cstdint>
#include <string_view>

#include "base/utf8.h"

namespace strata {

// Sets of general categories that pre-tokenizers and normalizers ask for, one bit each.
inline constexpr uint8_t kClassLetter = 1 << 0;       // L*
inline constexpr uint8_t kClassNumber = 1 << 1;       // N*
inline constexpr uint8_t kClassSpace = 1 << 2;        // White_Space (never U+180E)
inline constexpr uint8_t kClassMark = 1 << 3;         // M*
inline constexpr uint8_t kClassPunctuation = 1 << 4;  // P*
inline constexpr uint8_t kClassSymbol = 1 << 5;       // S*
inline constexpr uint8_t kClassControl = 1 << 6;      // Cc, Cf, Cn, Co, Cs
inline constexpr uint8_t kClassNonspacing = 1 << 7;   // Mn

inline constexpr char32_t kCodePointEnd = 0x110000;

// [kCodePointEnd] bytes of the bits above, filled from ICU on the first call (a few milliseconds).
const uint8_t* unicode_classes();

// One code point of any bytes with its class; an ill-formed byte has length 1 and no class bit, so
// every splitter treats it as a symbol of its own.
struct ClassifiedStep {
  char32_t code_point;
  int length;
  uint8_t bits;
};
inline ClassifiedStep classify_at(const uint8_t* classes, const char* p, const char* end) {
  const auto first = static_cast<unsigned char>(*p);
  if (first < 0x80) return {first, 1, classes[first]};
  const Utf8Step step = decode_utf8(std::string_view(p, static_cast<size_t>(end - p)));
  if (!step.valid) return {step.code_point, 1, 0};
  return {step.code_point, step.length, classes[step.code_point]};
}

}  // namespace strata
