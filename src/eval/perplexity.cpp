#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "kernels/kernel_table.h"

namespace strata {
namespace {

// Windows that share a pass: enough rows to keep the products busy.
constexpr int64_t kRowsPerPass = 1024;
// Rows of logits at a time: 16 of 262,144 are 16 MB.
constexpr int64_t kLogitRows = 16;

struct Scores {
  double sum = 0, squares = 0;
  int64_t count = 0;

  void add(double nll) {
    sum += nll;
    squares += nll * nll;
    ++count;
  }
};

// Windows [first, last) in one pass.
void score(Exec& exec, const Model& model, std::span<const TokenId> tokens,
           const PerplexityOptions& options, int64_t first, int64_t last, Scores& scores) {
  const int64_t context = options.context;
  std::vector<int32_t> ids, positions;
  std::vector<SequenceRows> sequences;
  for (int64_t w = first; w < last; ++w) {
    sequences.push_back({static_cast<int32_t>(ids.size()), static_cast<int32_t>(context), 0, -1});
    for (int64_t i = 0; i < context; ++i) {
      ids.push_back(i == 0 && options.first_token ? *options.first_token
                                                  : tokens[static_cast<size_t>(w * context + i)]);
      positions.push_back(static_cast<int32_t>(i));
    }
  }
  const Tensor hidden = forward_hidden(exec, model.transformer, {ids, positions, sequences});
  for (int64_t w = first; w < last; ++w) {
    for (int64_t begin = context / 2; begin < context - 1; begin += kLogitRows) {
      std::vector<int32_t> rows;
      for (int64_t i = begin; i < std::min(begin + kLogitRows, context - 1); ++i)
        rows.push_back(static_cast<int32_t>((w - first) * context + i));
      const Tensor logits = forward_logits(exec, model.transformer, hidden, rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t next = w * context + begin + static_cast<int64_t>(i) + 1;
        const double nll = negative_log_likelihood(logits, static_cast<int64_t>(i),
                                                   tokens[static_cast<size_t>(next)]);
        if (!std::isfinite(nll))
          fail(ErrorCode::data_corrupt, "perplexity: logits of window {} are not finite", w);
        scores.add(nll);
      }
    }
  }
}

}  // namespace

double negative_log_likelihood(const Tensor& logits, int64_t row, TokenId target) {
  STRATA_ASSERT(target >= 0 && target < logits.columns);
  if (logits.dtype == DType::f32) {
    const RowKernels& kernels = *kernel_table(isa_level()).rows;
    const float* x = logits.row<float>(row);
    const float largest = kernels.max_value(x, logits.columns);
    return std::log(kernels.sum_exp(x, largest, logits.columns)) -
           (static_cast<double>(x[target]) - static_cast<double>(largest));
  }
  const double* x = logits.row<double>(row);
  const double largest = *std::max_element(x, x + logits.columns);
  double sum = 0;
  for (int64_t i = 0; i < logits.columns; ++i) sum += std::exp(x[i] - largest);
  return std::log(sum) - (x[target] - largest);
}

PerplexityResult perplexity(Exec& exec, const Model& model, std::span<const TokenId> tokens,
                            const PerplexityOptions& options) {
  const int64_t context = options.context;
  if (context < 4 || context > model.config.context_length)
    fail(ErrorCode::invalid_argument, "perplexity: windows of {} tokens; 4 to {} are possible",
         context, model.config.context_length);
  const int64_t whole = static_cast<int64_t>(tokens.size()) / context;
  if (whole == 0)
    fail(ErrorCode::invalid_argument, "perplexity: the text has {} tokens, a window needs {}",
         tokens.size(), context);
  const int64_t windows = options.chunks > 0 ? std::min(options.chunks, whole) : whole;
  const int64_t together = std::max<int64_t>(1, kRowsPerPass / context);
  Scores scores;
  for (int64_t w = 0; w < windows; w += together) {
    score(exec, model, tokens, options, w, std::min(w + together, windows), scores);
    if (options.progress)
      options.progress(static_cast<double>(std::min(w + together, windows)) /
                       static_cast<double>(windows));
  }
  const auto count = static_cast<double>(scores.count);
  PerplexityResult result;
  result.tokens = scores.count;
  result.nll = scores.sum / count;
  result.perplexity = std::exp(result.nll);
  const double variance = std::max(0.0, scores.squares / count - result.nll * result.nll);
  if (scores.count > 1)
    result.standard_error = result.perplexity * std::sqrt(variance / (count - 1));
  return result;
}

}  // namespace strata
