#pragma once

#include <cstdint>

#include "ops/context.h"
#include "ops/workspace.h"
#include "tensor/tensor.h"

namespace strata {

// Products of matrices for training and heads, in f32 or, asked for, of operands rounded to bf16.
// Forward is nt (y = x W^T), the gradient of x is nn (d_x = d_y W), that of W is tn (d_W += d_y^T
// x).
//
// The bits of an element depend on its row of the left operand and its column of the right one
// alone (kernels/gemm.h), not on M, N or the threads. Dimensions of 0 are allowed: K = 0 gives the
// start. No operand may overlap c.
// Err: (min(K, 384) + K / 384 + 2) 2^-24 (|start| + sum |a b|); of bf16 products
// 2^-8 (2 + 2^-8) sum |a b| more. Throws Error{invalid_argument} naming the operand whose shape or
// type does not fit.

struct GemmOptions {
  bool accumulate = false;      // c += a b
  const float* bias = nullptr;  // [N]: c = bias + a b; not with accumulate
  // Both operands are rounded to bf16 and multiplied in pairs, sums in f32, where the level has an
  // instruction for it (kernels/gemm.h); elsewhere this changes nothing.
  bool bf16 = false;
};

// c [M, N] = a [M, K] b [K, N]; b f32, f16 or bf16 (exact in f32; sums in f32).
void gemm_nn(const Tensor& a, const Tensor& b, const Tensor& c, const GemmOptions& options,
             Workspace& workspace, const OpContext& context);
// c [M, N] = a [M, K] b [N, K]^T; b likewise.
void gemm_nt(const Tensor& a, const Tensor& b, const Tensor& c, const GemmOptions& options,
             Workspace& workspace, const OpContext& context);
// c [M, N] = a [K, M]^T b [K, N].
void gemm_tn(const Tensor& a, const Tensor& b, const Tensor& c, const GemmOptions& options,
             Workspace& workspace, const OpContext& context);

}  // namespace strata
