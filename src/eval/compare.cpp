#include "eval/compare.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace strata {
namespace {

constexpr int64_t kLogitRows = 16;

// The logits of one row as f64.
std::vector<double> row_of(const Tensor& t, int64_t row) {
  std::vector<double> x(static_cast<size_t>(t.columns));
  for (int64_t i = 0; i < t.columns; ++i)
    x[static_cast<size_t>(i)] =
        t.dtype == DType::f32 ? static_cast<double>(t.row<float>(row)[i]) : t.row<double>(row)[i];
  return x;
}

TokenId best_of(const std::vector<double>& logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void to_log_probabilities(std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - largest);
  for (double& x : logits) x -= largest + std::log(sum);
}

// The text as one sequence whose cache ends with the pass.
struct Text {
  explicit Text(std::span<const TokenId> tokens)
      : ids(tokens.begin(), tokens.end()), positions(ids.size()) {
    std::iota(positions.begin(), positions.end(), 0);
    sequence.rows = static_cast<int32_t>(ids.size());
  }
  Batch batch() const { return {ids, positions, {&sequence, 1}}; }

  std::vector<int32_t> ids, positions;
  SequenceRows sequence;
};

std::vector<int32_t> some_rows(int64_t begin, int64_t end) {
  std::vector<int32_t> rows(static_cast<size_t>(std::min(kLogitRows, end - begin)));
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(begin));
  return rows;
}

}  // namespace

Divergence compare_distributions(Exec& reference, Exec& tested, const Model& model,
                                 std::span<const TokenId> tokens) {
  if (tokens.empty()) fail(ErrorCode::invalid_argument, "compare: the text has no tokens");
  const Text text(tokens);
  const Batch batch = text.batch();
  const Tensor want = forward_hidden(reference, model.transformer, batch);
  const Tensor got = forward_hidden(tested, model.transformer, batch);
  Divergence result;
  result.positions = batch.size();
  for (int64_t begin = 0; begin < batch.size(); begin += kLogitRows) {
    const std::vector<int32_t> rows = some_rows(begin, batch.size());
    const Tensor want_logits = forward_logits(reference, model.transformer, want, rows);
    const Tensor got_logits = forward_logits(tested, model.transformer, got, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<double> p = row_of(want_logits, static_cast<int64_t>(i));
      std::vector<double> q = row_of(got_logits, static_cast<int64_t>(i));
      result.same_best += best_of(p) == best_of(q);
      to_log_probabilities(p);
      to_log_probabilities(q);
      double kl = 0;
      for (size_t j = 0; j < p.size(); ++j) kl += std::exp(p[j]) * (p[j] - q[j]);
      result.mean_kl += kl;
      result.largest_kl = std::max(result.largest_kl, kl);
    }
  }
  result.mean_kl /= static_cast<double>(result.positions);
  result.same_best /= static_cast<double>(result.positions);
  return result;
}

std::vector<GreedyMiss> check_greedy(Exec& exec, const Model& model,
                                     std::span<const TokenId> prompt,
                                     std::span<const TokenId> continuation) {
  if (prompt.empty()) fail(ErrorCode::invalid_argument, "greedy check: the prompt has no tokens");
  std::vector<TokenId> tokens(prompt.begin(), prompt.end());
  tokens.insert(tokens.end(), continuation.begin(), continuation.end());
  const Text text(tokens);
  const Batch batch = text.batch();
  const Tensor hidden = forward_hidden(exec, model.transformer, batch);
  const auto first = static_cast<int64_t>(prompt.size()) - 1;  // its logits name continuation[0]
  std::vector<GreedyMiss> misses;
  for (int64_t begin = first; begin < batch.size() - 1; begin += kLogitRows) {
    const std::vector<int32_t> rows = some_rows(begin, batch.size() - 1);
    const Tensor logits = forward_logits(exec, model.transformer, hidden, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<double> x = row_of(logits, static_cast<int64_t>(i));
      const TokenId expected = tokens[static_cast<size_t>(rows[i]) + 1];
      const TokenId best = best_of(x);
      if (best != expected)
        misses.push_back({rows[i] - first, expected, best,
                          x[static_cast<size_t>(best)] - x[static_cast<size_t>(expected)]});
    }
  }
  return misses;
}

}  // namespace strata
