#include "ops/norm.h"

#include <algorithm>

#include "ops/check.h"

namespace strata {
namespace {

// Rows whose weight gradients one thread adds up before they meet the others'.
constexpr int64_t kBlockRows = 64;

// fn(row, d_x of the row, d_weight, d_bias) for every row, with the sums of each block of rows
// apart; then the blocks' sums onto the caller's, in order.
template <typename RowFn>
void each_row_backward(const Tensor& x, const NormGradients& out, Workspace& workspace,
                       const OpContext& context, RowFn fn) {
  const int64_t D = x.columns, blocks = (x.rows + kBlockRows - 1) / kBlockRows;
  if (D == 0) return;
  const auto add = context.kernels->train_rows->accumulate;
  // Of a block: sums of d_weight and d_bias, and one row of d_x on its way to the caller's.
  float* memory = workspace.floats(blocks * 3 * D);
  context.pool->parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      float* sum = memory + b * 3 * D;
      float* row = sum + 2 * D;
      std::fill_n(sum, 2 * D, 0.0f);
      for (int64_t r = b * kBlockRows; r < std::min(x.rows, (b + 1) * kBlockRows); ++r) {
        float* d_x = out.d_x.row<float>(r);
        fn(r, out.add_to_d_x ? row : d_x, sum, sum + D);
        if (out.add_to_d_x) add(row, D, d_x);
      }
    }
  });
  for (int64_t b = 0; b < blocks; ++b) {
    if (out.d_weight != nullptr) add(memory + b * 3 * D, D, out.d_weight);
    if (out.d_bias != nullptr) add(memory + b * 3 * D + D, D, out.d_bias);
  }
}

}  // namespace

void rms_norm_forward(const Tensor& x, const NormWeights& w, const Tensor& y,
                      const OpContext& context) {
  check_like("rms_norm_forward", "y", y, x);
  const auto kernel = context.kernels->rows->rms_norm;
  each_row(x.rows, x.columns, context, [&](int64_t r) {
    kernel(x.row<float>(r), w.weight, w.epsilon, x.columns, y.row<float>(r));
  });
}

void layer_norm_forward(const Tensor& x, const NormWeights& w, const Tensor& y,
                        const OpContext& context) {
  check_like("layer_norm_forward", "y", y, x);
  const auto kernel = context.kernels->rows->layer_norm;
  each_row(x.rows, x.columns, context, [&](int64_t r) {
    kernel(x.row<float>(r), w.weight, w.bias, w.epsilon, x.columns, y.row<float>(r));
  });
}

void rms_norm_backward(const Tensor& x, const NormWeights& w, const Tensor& d_y,
                       const NormGradients& out, Workspace& workspace, const OpContext& context) {
  check_like("rms_norm_backward", "d_y", d_y, x);
  check_like("rms_norm_backward", "d_x", out.d_x, x);
  const auto kernel = context.kernels->train_rows->rms_norm_backward;
  each_row_backward(
      x, out, workspace, context, [&](int64_t r, float* d_x, float* d_weight, float*) {
        kernel(x.row<float>(r), w.weight, w.epsilon, d_y.row<float>(r), x.columns, d_x, d_weight);
      });
}

void layer_norm_backward(const Tensor& x, const NormWeights& w, const Tensor& d_y,
                         const NormGradients& out, Workspace& workspace, const OpContext& context) {
  check_like("layer_norm_backward", "d_y", d_y, x);
  check_like("layer_norm_backward", "d_x", out.d_x, x);
  const auto kernel = context.kernels->train_rows->layer_norm_backward;
  each_row_backward(x, out, workspace, context,
                    [&](int64_t r, float* d_x, float* d_weight, float* d_bias) {
                      kernel(x.row<float>(r), w.weight, w.epsilon, d_y.row<float>(r), x.columns,
                             d_x, d_weight, out.d_bias == nullptr ? nullptr : d_bias);
                    });
}

}  // namespace strata
