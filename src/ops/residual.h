#pragma once

#include "ops/context.h"
#include "ops/dropout.h"
#include "ops/workspace.h"
#include "tensor/tensor.h"

namespace strata {

// y = x + dropout(branch), all [N, D]: where a branch joins the residual stream. y may be
// branch. With probability 0 a plain sum. Mask, gradient and errors as in ops/dropout.h.
void residual_add(const Tensor& x, const Tensor& branch, const DropoutMask& mask, const Tensor& y,
                  const OpContext& context);

// d_bias[c] += sum of d_y [N, D] over rows: the gradient of a projection's bias. Rows are summed in
// blocks of 64 in order, blocks in order: the same bits with any threads.
void add_column_sums(const Tensor& d_y, float* d_bias, Workspace& workspace,
                     const OpContext& context);

}  // namespace strata
