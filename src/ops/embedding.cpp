#include "ops/embedding.h"

#include <algorithm>

#include "numeric/half.h"
#include "ops/check.h"

namespace strata {
namespace {

// Columns of a cache line: threads do not write to the same one.
constexpr int64_t kLineFloats = 16;

void check_ids(const char* op, const int32_t* ids, int64_t rows, const Tensor& table) {
  for (int64_t n = 0; n < rows; ++n)
    if (ids[n] < 0 || ids[n] >= table.rows)
      fail(ErrorCode::invalid_argument, "{}: id {} of row {} is outside the table's {} rows", op,
           ids[n], n, table.rows);
}

}  // namespace

void embedding_gather(const Tensor& table, const int32_t* ids, const Tensor& y,
                      const OpContext& context) {
  check_weight("embedding_gather", "table", table, table.rows, table.columns);
  check_shape("embedding_gather", "y", y, y.rows, table.columns);
  check_ids("embedding_gather", ids, y.rows, table);
  context.pool->parallel_for(y.rows, rows_per_piece(y.columns), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      float* to = y.row<float>(n);
      if (table.dtype == DType::bf16)
        std::transform(table.row<uint16_t>(ids[n]), table.row<uint16_t>(ids[n]) + y.columns, to,
                       decode_bf16);
      else
        std::copy_n(table.row<float>(ids[n]), y.columns, to);
    }
  });
}

void embedding_scatter_add(const Tensor& d_y, const int32_t* ids, const Tensor& d_table,
                           const OpContext& context) {
  check_like("embedding_scatter_add", "d_y", d_y, d_y);
  check_shape("embedding_scatter_add", "d_table", d_table, d_table.rows, d_y.columns);
  check_ids("embedding_scatter_add", ids, d_y.rows, d_table);
  const auto add = context.kernels->train_rows->accumulate;
  context.pool->parallel_for(d_y.columns, kLineFloats, [&](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < d_y.rows; ++n)
      add(d_y.row<float>(n) + begin, end - begin, d_table.row<float>(ids[n]) + begin);
  });
}

}  // namespace strata
