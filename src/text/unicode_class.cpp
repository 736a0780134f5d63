#include "text/unicode_class.h"

#include <unicode/uchar.h>

#include <vector>

namespace strata {
namespace {

uint8_t class_of(UChar32 c) {
  const uint32_t category = U_MASK(u_charType(c));
  uint8_t bits = 0;
  if (category & U_GC_L_MASK) bits |= kClassLetter;
  if (category & U_GC_N_MASK) bits |= kClassNumber;
  if (u_isUWhiteSpace(c)) bits |= kClassSpace;
  if (category & U_GC_M_MASK) bits |= kClassMark;
  if (category & U_GC_P_MASK) bits |= kClassPunctuation;
  if (category & U_GC_S_MASK) bits |= kClassSymbol;
  if (category & U_GC_C_MASK) bits |= kClassControl;
  if (category & U_GC_MN_MASK) bits |= kClassNonspacing;
  return bits;
}

}  // namespace

const uint8_t* unicode_classes() {
  static const std::vector<uint8_t> table = [] {
    std::vector<uint8_t> t(kCodePointEnd);
    for (char32_t c = 0; c < kCodePointEnd; ++c) t[c] = class_of(static_cast<UChar32>(c));
    return t;
  }();
  return table.data();
}

}  // namespace strata
