#pragma once

#include <cstdint>

namespace strata {

// 32 consecutive activations of one row, as the quantised products read them:
//   scale = amax / 127, q[i] = x[i] * (127 / amax) rounded half to even, amax the largest |x[i]|.
// A block with amax < kActivationFloor is zero (scale 0). A block with an infinity or NaN has scale
// NaN, so that the row's results are NaN and not some number. |q[i]| <= 127, never -128: products
// with 4-bit codes then fit the 16-bit sums of vpmaddubsw.
struct ActivationBlock {
  static constexpr int kElements = 32;
  int8_t q[32];
  float scale;
  float scaled_sum;  // scale * (sum of q), for formats with an f16 offset
  int16_t sums[2];   // of q[0..16) and q[16..32), for integer offsets
};
static_assert(sizeof(ActivationBlock) == 44);

// 127 / amax overflows f32 below 3.7e-37; nothing that small takes part in a sum.
inline constexpr float kActivationFloor = 1e-30f;

}  // namespace strata
