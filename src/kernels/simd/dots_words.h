#pragma once

// Products of codes and activations added in 16 bits, by vpmaddubsw. Included after a lanes_*.h.
#include "numeric/packed.h"

namespace strata {
namespace {

// Signed codes are multiplied as they are.
constexpr bool kUnsignedDots = false;

using Dots = Words;

template <bool kSigned>
STRATA_SIMD Dots dot(Bytes codes, const int8_t* x) {
  return kSigned ? w_dot_s8(codes, x) : w_dot_u8(codes, x);
}
template <bool kSigned>
STRATA_SIMD Dots add_dot(Dots sum, Bytes codes, const int8_t* x) {
  return w_add(sum, dot<kSigned>(codes, x));
}

// How many results of dot() may be added: each is two products with |q| <= 127.
constexpr int addable(Codes codes, bool is_signed) {
  if (is_signed) return 1;  // 128 * 127 * 2 = 32512
  switch (codes) {
    case Codes::u6:
      return 2;  // 63 * 127 * 2 = 16002
    case Codes::u5:
      return 4;  // 31 * 127 * 2 = 7874
    default:
      return 8;  // 15 * 127 * 2 = 3810
  }
}

// The sums of each lane, times its factor (in both halves of the lane) if kScaled, else times 1.
template <bool kScaled>
STRATA_SIMD Ints scale_dots(Dots sums, Words factors) {
  return i_pair_dot(sums, kScaled ? factors : w_set(1));
}

}  // namespace
}  // namespace strata
