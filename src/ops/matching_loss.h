#pragma once

#include <cstdint>

#include "ops/context.h"
#include "ops/workspace.h"
#include "tensor/tensor.h"

namespace strata {

// Losses of rows x [N, C] against the rows of another matrix of the same shape, the teacher's; f32.
// The formulas of a row are at kernels/train_rows.h. Each op writes factor times the gradient by x
// to d_x [N, C] (which may be x; data == nullptr: the loss only), zeros for rows that take no part,
// and returns the sum over those that do. Their mean is PyTorch's: F.mse_loss, 1 - the mean of
// F.cosine_similarity, F.kl_div with "batchmean".
// Bits depend neither on threads nor, row by row, on N. Throws Error{invalid_argument} naming the
// operand that does not fit.
struct MatchingLossOptions {
  // Rows whose entry is kIgnoreTarget (cross_entropy.h) take no part; nullptr: all do.
  const int32_t* targets = nullptr;
  // What the gradient of a row's loss is multiplied by: 1 / all rows that count, for the mean.
  float factor = 1;
};
struct MatchingLoss {
  double sum = 0;    // over the rows that count, in order
  int64_t rows = 0;  // how many they are
};

// A row's loss: the mean of its squared differences.
MatchingLoss squared_error_loss(const Tensor& x, const Tensor& target,
                                const MatchingLossOptions& options, const Tensor& d_x,
                                Workspace& workspace, const OpContext& context);
// One minus the cosine between the rows.
MatchingLoss cosine_loss(const Tensor& x, const Tensor& target, const MatchingLossOptions& options,
                         const Tensor& d_x, Workspace& workspace, const OpContext& context);
// KL(softmax(target / temperature) || softmax(x / temperature)) of rows of logits; no factor of
// temperature^2, which is the caller's (Hinton et al. 2015, arXiv:1503.02531). temperature > 0.
MatchingLoss kl_loss(const Tensor& x, const Tensor& target, float temperature,
                     const MatchingLossOptions& options, const Tensor& d_x, Workspace& workspace,
                     const OpContext& context);

}  // namespace strata
