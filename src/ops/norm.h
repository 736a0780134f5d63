#pragma once

#include "ops/context.h"
#include "ops/workspace.h"
#include "tensor/tensor.h"

namespace strata {

// Norms of the rows of x [N, D] with weight [D]; formulas and bounds in kernels/rows.h and
// kernels/train_rows.h. Backward recomputes the row's mean and root from x, so that forward saves
// nothing.
struct NormWeights {
  const float* weight = nullptr;  // [D]
  const float* bias = nullptr;    // [D]; layer_norm only, nullptr: none
  float epsilon = 0;
};

// y may be x.
void rms_norm_forward(const Tensor& x, const NormWeights& w, const Tensor& y,
                      const OpContext& context);
void layer_norm_forward(const Tensor& x, const NormWeights& w, const Tensor& y,
                        const OpContext& context);

// d_x is overwritten and may be d_y, or added to (then it is not d_y); d_weight and d_bias [D] are
// added to, either may be nullptr.
// Rows are summed in blocks of 64 in order, blocks in order: the same bits with any threads.
struct NormGradients {
  Tensor d_x;
  float* d_weight = nullptr;
  float* d_bias = nullptr;
  bool add_to_d_x = false;
};
void rms_norm_backward(const Tensor& x, const NormWeights& w, const Tensor& d_y,
                       const NormGradients& out, Workspace& workspace, const OpContext& context);
void layer_norm_backward(const Tensor& x, const NormWeights& w, const Tensor& d_y,
                         const NormGradients& out, Workspace& workspace, const OpContext& context);

}  // namespace strata
