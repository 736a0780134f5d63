#pragma once

#include <cstdint>
#include <cstring>

// Elements of the KV cache and of matrices, one at a time. Internal to the ISA file that includes
// it, as the vectors are (vec_scalar.h).
namespace strata {
namespace {

struct F32 {
  float value;
};
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

inline float bits_to_float(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
inline uint32_t float_to_bits(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}

inline float to_float(F32 x) { return x.value; }
inline float to_float(BF16 x) { return bits_to_float(uint32_t{x.bits} << 16); }

inline void from_float(float x, F32& out) { out.value = x; }
// Round to nearest even; NaN stays NaN.
inline void from_float(float x, BF16& out) {
  const uint32_t bits = float_to_bits(x);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  out.bits = static_cast<uint16_t>((nan ? bits | 0x400000u : rounded) >> 16);
}

}  // namespace
}  // namespace strata
