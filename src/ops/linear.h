#pragma once

#include <span>

#include "ops/context.h"
#include "ops/packed_matrix.h"
#include "ops/quantize_rows.h"
#include "tensor/tensor.h"

namespace strata {

// The rows a product reads, in the forms its weights need: f32 for float weights, int8 for
// quantised ones. A form no weight of the call needs may be left out.
struct LinearInput {
  Tensor x;                 // [N, in] f32
  QuantizedRows quantized;  // of the same rows
  // Of what `quantized` lost (quantize_residual), or absent: quantised weights then multiply both,
  // at twice the work. Not part of Err below, whose int8 activations are then the sum of the two.
  QuantizedRows residual;
};

// One product y = x w^T + bias of a call.
struct LinearPart {
  const PackedMatrix* weight = nullptr;  // [out, in]
  const float* bias = nullptr;           // [out] or nullptr
  Tensor y;                              // [N, out] f32; must not overlap other operands
};

// Several products of the same rows (q, k and v; gate and up) in one go: one barrier for all.
//
// A row of y depends on its row of x alone, bit for bit: neither N, the other parts nor the threads
// change it, nor the ISA level, but for weights in bf16 (the order of sums: kernels/matmul.h). Each
// weight is read once per panel of tokens; a panel's activations stay in the second-level cache.
// Err: |y - y_ref| <= (in / 16 + 16) * 2^-24 * sum |x| * (|w| + 2 |offset of w|) for quantised
// weights, y_ref the f64 product of the decoded weights and the int8 activations;
// (in + 2) * 2^-24 * sum |x| |w| for float weights, and 2^-8 * sum |x| |w| more for those in bf16
// at avx512_bf16, where x is rounded to bf16. Throws Error{invalid_argument} naming the operand
// when shapes do not match.
void linear(std::span<const LinearPart> parts, const LinearInput& input, const OpContext& context);
void linear(const LinearPart& part, const LinearInput& input, const OpContext& context);

}  // namespace strata
