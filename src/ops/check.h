#pragma once

#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/context.h"
#include "tensor/tensor.h"

namespace strata {

// Throws Error{invalid_argument} "op: operand is ..., wanted ..." unless `t` is f32 [rows,
// columns].
inline void check_shape(const char* op, const char* operand, const Tensor& t, int64_t rows,
                        int64_t columns) {
  if (t.dtype != DType::f32) fail(ErrorCode::invalid_argument, "{}: {} is not f32", op, operand);
  if (t.rows != rows || t.columns != columns)
    fail(ErrorCode::invalid_argument, "{}: {} is [{}, {}], wanted [{}, {}]", op, operand, t.rows,
         t.columns, rows, columns);
}
// The same of a weight that may be bf16 as well.
inline void check_weight(const char* op, const char* operand, Tensor t, int64_t rows,
                         int64_t columns) {
  if (t.dtype == DType::bf16) t.dtype = DType::f32;
  check_shape(op, operand, t, rows, columns);
}
inline void check_like(const char* op, const char* operand, const Tensor& t, const Tensor& like) {
  check_shape(op, operand, t, like.rows, like.columns);
}

// Rows worth handing to another thread: some microseconds of work.
inline int64_t rows_per_piece(int64_t columns) { return 8192 / (columns + 1) + 1; }

// fn(row) for every row, on several threads where a row costs as much as a sum of `columns`.
template <typename RowFn>
void each_row(int64_t rows, int64_t columns, const OpContext& context, RowFn fn) {
  context.pool->parallel_for(rows, rows_per_piece(columns), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) fn(r);
  });
}

}  // namespace strata
