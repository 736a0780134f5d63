#pragma once

#include <cstdint>

#include "ops/context.h"
#include "ops/workspace.h"
#include "tensor/tensor.h"

namespace strata {

// Cross-entropy of rows of logits against target ids, with label smoothing (PyTorch's): the
// formulas are at kernels/train_rows.h. Rows whose target is kIgnoreTarget take no part.
inline constexpr int32_t kIgnoreTarget = -100;

struct CrossEntropyOptions {
  float smoothing = 0;
  // What the gradient of a row's loss is multiplied by: 1 / all tokens that count, of all
  // micro-batches, for the mean.
  float factor = 1;
};
struct CrossEntropyLoss {
  double sum = 0;      // over the rows that count, in order
  int64_t tokens = 0;  // how many they are
};

// Of logits [N, V] that exist: turned into factor d loss / d logits in place (ignored rows: zeros).
// Throws Error{invalid_argument} for a target outside [0, V).
CrossEntropyLoss cross_entropy(const Tensor& logits, const int32_t* targets,
                               const CrossEntropyOptions& options, Workspace& workspace,
                               const OpContext& context);

// Of logits = x w^T that never exist as a whole: chunks of rows of at most 64 MiB (at least 96
// rows' worth) are made, judged and turned into gradients at once, so memory is O(V), not O(N V).
// x [N, D], w [V, D] f32 or bf16 (then products are asked for in bf16, GemmOptions). d_x [N, D] is
// overwritten, d_w [V, D] added to, both f32; each may be absent (data == nullptr), both absent:
// the loss only. The chunks depend on V alone, so the bits depend neither on threads nor, row by
// row, on N.
struct HeadGradients {
  Tensor d_x, d_w;
};
CrossEntropyLoss cross_entropy_head(const Tensor& x, const Tensor& w, const int32_t* targets,
                                    const CrossEntropyOptions& options, const HeadGradients& out,
                                    Workspace& workspace, const OpContext& context);

}  // namespace strata
