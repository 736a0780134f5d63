#include "ops/residual.h"

#include <algorithm>

#include "ops/check.h"

namespace strata {
namespace {

constexpr int64_t kBlockRows = 64;

}  // namespace

void residual_add(const Tensor& x, const Tensor& branch, const DropoutMask& mask, const Tensor& y,
                  const OpContext& context) {
  check_like("residual_add", "branch", branch, x);
  check_like("residual_add", "y", y, x);
  const auto add = context.kernels->train_rows->accumulate;
  if (mask.probability > 0) dropout(branch, mask, y, context);
  const bool copy = mask.probability == 0 && y.data != branch.data;
  context.pool->parallel_for(x.rows, rows_per_piece(x.columns), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (copy) std::copy_n(branch.row<float>(r), x.columns, y.row<float>(r));
      add(x.row<float>(r), x.columns, y.row<float>(r));
    }
  });
}

void add_column_sums(const Tensor& d_y, float* d_bias, Workspace& workspace,
                     const OpContext& context) {
  check_like("add_column_sums", "d_y", d_y, d_y);
  const int64_t D = d_y.columns, blocks = (d_y.rows + kBlockRows - 1) / kBlockRows;
  if (D == 0) return;
  const auto add = context.kernels->train_rows->accumulate;
  float* sums = workspace.floats(blocks * D);
  context.pool->parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      float* sum = sums + b * D;
      std::fill_n(sum, D, 0.0f);
      for (int64_t r = b * kBlockRows; r < std::min(d_y.rows, (b + 1) * kBlockRows); ++r)
        add(d_y.row<float>(r), D, sum);
    }
  });
  for (int64_t b = 0; b < blocks; ++b) add(sums + b * D, D, d_bias);
}

}  // namespace strata
