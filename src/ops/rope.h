#pragma once

#include <cstdint>

#include "ops/context.h"
#include "tensor/tensor.h"

namespace strata {

enum class RopeLayout : uint8_t { halves, pairs };
enum class RopeDirection : uint8_t { forward, backward };  // backward: the rotation back

// Cosines and sines by position, as kernels/rows.h wants them: halves [size] each, pairs [2 size]
// each with every value twice and the sine's sign. Row p at cosines + p stride, sines + p stride.
struct RopeAngles {
  RopeLayout layout = RopeLayout::halves;
  const float* cosines = nullptr;
  const float* sines = nullptr;
  int64_t stride = 0;
  int64_t positions = 0;
  int64_t size = 0;  // pairs of a head that turn: 2 size <= head_size
};

// Turns the heads of x [N, heads * head_size]; row n by position[n]. Elements of a head past 2 size
// are copied. y may be x. The gradient of forward is backward of d_y.
// Throws Error{invalid_argument} for shapes that do not fit or a position without angles.
void rope(const Tensor& x, int heads, int head_size, const RopeAngles& angles,
          const int32_t* position, RopeDirection direction, const Tensor& y,
          const OpContext& context);

}  // namespace strata
