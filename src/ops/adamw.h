#pragma once

#include <cstdint>
#include <span>

#include "ops/context.h"

namespace strata {

struct AdamWOptions {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0;     // decoupled: the parameter shrinks by learning_rate * weight_decay
  float gradient_factor = 1;  // from clipping, or 1 / loss scale
  int64_t step = 1;           // of the bias correction, from 1
};

// One parameter tensor with its moments, all of one size, f32; updated in place.
struct AdamWTensor {
  std::span<float> parameter;
  std::span<const float> gradient;
  std::span<float> mean;
  std::span<float> square;
};

// The formula is at kernels/train_rows.h; elementwise, so bits do not depend on threads.
// Throws Error{invalid_argument} when sizes differ or step < 1.
void adamw(const AdamWTensor& tensor, const AdamWOptions& options, const OpContext& context);

// Sum of squares over all tensors, in f64: blocks of 4,096 elements in order within a tensor,
// tensors in order; the same bits with any threads. Its root is the global norm. NaN if any is.
double sum_of_squares(std::span<const std::span<const float>> tensors, const OpContext& context);

// What gradients are to be multiplied by so that their norm is at most `limit`: 1 where it is
// already, or where limit is 0 (no clipping); NaN for a norm that is not finite.
float clip_factor(double norm, double limit);

}  // namespace strata
