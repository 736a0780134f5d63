#pragma once

#include <cstdint>

#include "ops/context.h"
#include "tensor/tensor.h"

namespace strata {

// y [N, D]: row n is row ids[n] of table [V, D], f32 or bf16.
// Throws Error{invalid_argument} naming an id outside [0, V).
void embedding_gather(const Tensor& table, const int32_t* ids, const Tensor& y,
                      const OpContext& context);
// d_table[ids[n]] += d_y[n], in order of n whatever the threads: each has columns of its own.
void embedding_scatter_add(const Tensor& d_y, const int32_t* ids, const Tensor& d_table,
                           const OpContext& context);

}  // namespace strata
