#pragma once

#include <cstdint>

#include "numeric/activation_block.h"
#include "ops/context.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace strata {

// The int8 twin of a tensor [rows, columns], columns a multiple of 32: what products with quantised
// weights read. A view; the memory is an arena's.
struct QuantizedRows {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;  // blocks from row to row
  ActivationBlock* blocks = nullptr;

  explicit operator bool() const { return blocks != nullptr; }
};

// Uninitialised rows, for callers that fuse quantising into the op before (row by row with
// kernels->matmul->quantize_row).
QuantizedRows allocate_quantized_rows(int64_t rows, int64_t columns, Arena& arena);

// Quantises x (f32). Each row depends on nothing but itself.
// Throws Error{invalid_argument} when the columns are no multiple of 32.
QuantizedRows quantize_rows(const Tensor& x, Arena& arena, const OpContext& context);

// What quantising x to `rows` lost, quantised again: x - rows, of the same shape. The two together
// hold x to 1 / 64,516 of each block's largest value.
QuantizedRows quantize_residual(const Tensor& x, const QuantizedRows& rows, Arena& arena,
                                const OpContext& context);

}  // namespace strata
