#include "ops/matching_loss.h"

#include <algorithm>
#include <cmath>

#include "ops/check.h"
#include "ops/cross_entropy.h"

namespace strata {
namespace {

// loss_of(x, target, d_x) of each row that counts.
template <typename Fn>
MatchingLoss match_rows(const char* op, const Tensor& x, const Tensor& target,
                        const MatchingLossOptions& options, const Tensor& d_x, Workspace& workspace,
                        const OpContext& context, const Fn& loss_of) {
  check_like(op, "x", x, x);
  check_like(op, "target", target, x);
  if (d_x.data != nullptr) check_like(op, "d_x", d_x, x);
  const auto counts = [&](int64_t n) {
    return options.targets == nullptr || options.targets[n] != kIgnoreTarget;
  };
  auto* losses = reinterpret_cast<double*>(workspace.floats(2 * x.rows));
  context.pool->parallel_for_dynamic(
      x.rows, rows_per_piece(4 * x.columns), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          float* d_row = d_x.data == nullptr ? nullptr : d_x.row<float>(n);
          if (counts(n))
            losses[n] = loss_of(x.row<float>(n), target.row<float>(n), d_row);
          else if (d_row != nullptr)
            std::fill_n(d_row, x.columns, 0.0f);
        }
      });
  MatchingLoss total;
  for (int64_t n = 0; n < x.rows; ++n) {
    if (!counts(n)) continue;
    total.sum += losses[n];
    ++total.rows;
  }
  return total;
}

}  // namespace

MatchingLoss squared_error_loss(const Tensor& x, const Tensor& target,
                                const MatchingLossOptions& options, const Tensor& d_x,
                                Workspace& workspace, const OpContext& context) {
  const auto kernel = context.kernels->train_rows->squared_error;
  return match_rows("squared_error_loss", x, target, options, d_x, workspace, context,
                    [&](const float* a, const float* b, float* d) {
                      return kernel(a, b, x.columns, options.factor, d);
                    });
}

MatchingLoss cosine_loss(const Tensor& x, const Tensor& target, const MatchingLossOptions& options,
                         const Tensor& d_x, Workspace& workspace, const OpContext& context) {
  const auto kernel = context.kernels->train_rows->cosine_distance;
  return match_rows("cosine_loss", x, target, options, d_x, workspace, context,
                    [&](const float* a, const float* b, float* d) {
                      return kernel(a, b, x.columns, options.factor, d);
                    });
}

MatchingLoss kl_loss(const Tensor& x, const Tensor& target, float temperature,
                     const MatchingLossOptions& options, const Tensor& d_x, Workspace& workspace,
                     const OpContext& context) {
  if (!(temperature > 0) || !std::isfinite(temperature))
    fail(ErrorCode::invalid_argument, "kl_loss: temperature is {}, wanted above 0", temperature);
  const auto kernel = context.kernels->train_rows->kl_divergence;
  return match_rows("kl_loss", x, target, options, d_x, workspace, context,
                    [&](const float* a, const float* b, float* d) {
                      return kernel(a, b, x.columns, 1.0f / temperature, options.factor, d);
                    });
}

}  // namespace strata
