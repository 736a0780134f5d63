#pragma once

#include <cstdint>

#include "ops/context.h"
#include "tensor/tensor.h"

namespace strata {

// Which mask: the same four numbers always give the same one.
struct DropoutMask {
  float probability = 0;  // of a zero; 0 <= probability < 1
  uint64_t seed = 0;
  uint32_t step = 0;   // of training
  uint32_t place = 0;  // which dropout of the model; below 2^28
};

// y = x / (1 - p) or 0, each element by its own draw; y may be x. The gradient is the same op on
// d_y. Element e = n * columns + c of the mask is word e % 4 of the Philox block with key = seed
// and counter {e / 4 (its low 32 bits), step, purpose dropout | place << 4, e / 4 >> 32}; kept
// where word >= p 2^32. So masks depend neither on threads nor on the rows' stride. Throws
// Error{invalid_argument} for a probability outside [0, 1) or a place out of range.
void dropout(const Tensor& x, const DropoutMask& mask, const Tensor& y, const OpContext& context);

}  // namespace strata
