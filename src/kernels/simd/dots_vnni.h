#pragma once

// Products of codes and activations added in 32 bits, by vpdpbusd, which takes unsigned codes.
// Included after a lanes_*.h that has i_add_dot_u8.
#include "numeric/packed.h"

namespace strata {
namespace {

// Signed codes come with 128 added; the formats count it as their bias.
constexpr bool kUnsignedDots = true;

using Dots = Ints;

template <bool kSigned>
STRATA_SIMD Dots add_dot(Dots sum, Bytes codes, const int8_t* x) {
  static_assert(!kSigned);
  return i_add_dot_u8(sum, codes, x);
}
template <bool kSigned>
STRATA_SIMD Dots dot(Bytes codes, const int8_t* x) {
  return add_dot<kSigned>(i_zero(), codes, x);
}

// All of a block's: 255 * 127 * 32 is far from 2^31.
constexpr int addable(Codes /*codes*/, bool /*is_signed*/) { return 8; }

template <bool kScaled>
STRATA_SIMD Ints scale_dots(Dots sums, Words factors) {
  if constexpr (kScaled) return i_mul(sums, i_high_of_pairs(factors));
  return sums;
}

}  // namespace
}  // namespace strata
