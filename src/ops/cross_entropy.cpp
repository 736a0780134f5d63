#include "ops/cross_entropy.h"

#include <algorithm>

#include "ops/check.h"
#include "ops/gemm.h"

namespace strata {
namespace {

constexpr int64_t kChunkFloats = int64_t{16} << 20;
constexpr int64_t kLeastRows = 96;

void check_targets(const char* op, const int32_t* targets, int64_t rows, int64_t V) {
  for (int64_t n = 0; n < rows; ++n)
    if (targets[n] != kIgnoreTarget && (targets[n] < 0 || targets[n] >= V))
      fail(ErrorCode::invalid_argument, "{}: target {} is {}, wanted 0 to {} or {} (ignored)", op,
           n, targets[n], V - 1, kIgnoreTarget);
}

// The rows' losses go to `losses` [rows].
void judge(const Tensor& logits, const int32_t* targets, const CrossEntropyOptions& options,
           double* losses, const OpContext& context) {
  const auto kernel = context.kernels->train_rows->cross_entropy;
  context.pool->parallel_for_dynamic(
      logits.rows, rows_per_piece(4 * logits.columns), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          float* row = logits.row<float>(n);
          losses[n] = 0;
          if (targets[n] == kIgnoreTarget)
            std::fill_n(row, logits.columns, 0.0f);
          else
            losses[n] = kernel(row, logits.columns, targets[n], options.smoothing, options.factor);
        }
      });
}

void add_up(const double* losses, const int32_t* targets, int64_t rows, CrossEntropyLoss& total) {
  for (int64_t n = 0; n < rows; ++n) {
    if (targets[n] == kIgnoreTarget) continue;
    total.sum += losses[n];
    ++total.tokens;
  }
}

Tensor rows_of(const Tensor& t, int64_t first, int64_t rows) {
  Tensor part = t;
  part.rows = rows;
  part.data = t.row<float>(first);
  return part;
}

}  // namespace

CrossEntropyLoss cross_entropy(const Tensor& logits, const int32_t* targets,
                               const CrossEntropyOptions& options, Workspace& workspace,
                               const OpContext& context) {
  check_like("cross_entropy", "logits", logits, logits);
  check_targets("cross_entropy", targets, logits.rows, logits.columns);
  CrossEntropyLoss total;
  auto* losses = reinterpret_cast<double*>(workspace.floats(2 * logits.rows));
  judge(logits, targets, options, losses, context);
  add_up(losses, targets, logits.rows, total);
  return total;
}

CrossEntropyLoss cross_entropy_head(const Tensor& x, const Tensor& w, const int32_t* targets,
                                    const CrossEntropyOptions& options, const HeadGradients& out,
                                    Workspace& workspace, const OpContext& context) {
  constexpr const char* kOp = "cross_entropy_head";
  check_like(kOp, "x", x, x);
  check_weight(kOp, "w", w, w.rows, x.columns);
  if (out.d_x.data != nullptr) check_like(kOp, "d_x", out.d_x, x);
  if (out.d_w.data != nullptr) check_shape(kOp, "d_w", out.d_w, w.rows, w.columns);
  const int64_t V = w.rows;
  check_targets(kOp, targets, x.rows, V);
  CrossEntropyLoss total;
  if (x.rows == 0) return total;
  const int64_t chunk =
      std::min(x.rows, std::max(kLeastRows, kChunkFloats / std::max<int64_t>(V, 1)));
  // The products' own workspace must not be this one: the logits live through them.
  const int64_t stride = (V + 15) / 16 * 16;
  const bool bf16 = w.dtype == DType::bf16;
  float* memory = workspace.floats(chunk * stride + 2 * chunk + 16);
  auto* losses = reinterpret_cast<double*>(memory + chunk * stride);
  for (int64_t first = 0; first < x.rows; first += chunk) {
    const int64_t rows = std::min(chunk, x.rows - first);
    const Tensor logits{DType::f32, rows, V, stride, memory, -1};
    const Tensor part = rows_of(x, first, rows);
    gemm_nt(part, w, logits, {.bf16 = bf16}, workspace.nested(), context);
    judge(logits, targets + first, options, losses, context);
    add_up(losses, targets + first, rows, total);
    if (out.d_x.data != nullptr)
      gemm_nn(logits, w, rows_of(out.d_x, first, rows), {.bf16 = bf16}, workspace.nested(),
              context);
    if (out.d_w.data != nullptr)
      gemm_tn(logits, part, out.d_w, {.accumulate = true, .bf16 = bf16}, workspace.nested(),
              context);
  }
  return total;
}

}  // namespace strata
