#include "bench/attention_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace strata {
namespace {

constexpr double kUnseen = -std::numeric_limits<double>::infinity();

void check(const char* operand, size_t got, int64_t wanted) {
  if (static_cast<int64_t>(got) != wanted)
    fail(ErrorCode::invalid_argument, "attention: {} has {} numbers, its shape asks for {}",
         operand, got, wanted);
}

// Softmax of a row in place; a row that sees nothing becomes zeros.
void softmax_row(double* row, int64_t n) {
  const double largest = *std::max_element(row, row + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += row[i] = largest == kUnseen ? 0 : std::exp(row[i] - largest);
  for (int64_t i = 0; i < n && sum > 0; ++i) row[i] /= sum;
}

// seen(b, i, t): whether query i of a batch's entry sees its key t.
template <typename Seen>
AttentionSteps steps_of(const std::vector<double>& q, const std::vector<double>& k,
                        const std::vector<double>& v, const AttentionShape& s, double scale,
                        const Seen& seen) {
  if (s.batch < 1 || s.heads < 1 || s.kv_heads < 1 || s.queries < 1 || s.keys < 1 ||
      s.head_size < 1 || s.heads % s.kv_heads != 0)
    fail(ErrorCode::invalid_argument,
         "attention: sizes must be at least 1 and heads ({}) a multiple of kv_heads ({})", s.heads,
         s.kv_heads);
  check("q", q.size(), s.batch * s.heads * s.queries * s.head_size);
  check("k", k.size(), s.batch * s.kv_heads * s.keys * s.head_size);
  check("v", v.size(), s.batch * s.kv_heads * s.keys * s.head_size);
  AttentionSteps steps;
  steps.scores.resize(static_cast<size_t>(s.batch * s.heads * s.queries * s.keys));
  steps.out.assign(q.size(), 0.0);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = (b * s.kv_heads + h / (s.heads / s.kv_heads)) * s.keys;
      for (int64_t i = 0; i < s.queries; ++i)
        for (int64_t t = 0; t < s.keys; ++t) {
          double score = 0;
          for (int64_t d = 0; d < s.head_size; ++d)
            score += q[static_cast<size_t>(((b * s.heads + h) * s.queries + i) * s.head_size + d)] *
                     k[static_cast<size_t>((kv + t) * s.head_size + d)];
          steps.scores[static_cast<size_t>(((b * s.heads + h) * s.queries + i) * s.keys + t)] =
              score;
        }
    }
  steps.scaled = steps.scores;
  for (size_t at = 0; at < steps.scaled.size(); ++at) {
    const auto i = static_cast<int64_t>(at) / s.keys % s.queries;
    const auto t = static_cast<int64_t>(at) % s.keys;
    const auto b = static_cast<int64_t>(at) / (s.heads * s.queries * s.keys);
    steps.scaled[at] = seen(b, i, t) ? steps.scaled[at] * scale : kUnseen;
  }
  steps.weights = steps.scaled;
  for (int64_t row = 0; row < s.batch * s.heads * s.queries; ++row)
    softmax_row(steps.weights.data() + row * s.keys, s.keys);
  for (int64_t row = 0; row < s.batch * s.heads * s.queries; ++row) {
    const int64_t b = row / s.queries / s.heads, h = row / s.queries % s.heads;
    const int64_t kv = (b * s.kv_heads + h / (s.heads / s.kv_heads)) * s.keys;
    for (int64_t t = 0; t < s.keys; ++t)
      for (int64_t d = 0; d < s.head_size; ++d)
        steps.out[static_cast<size_t>(row * s.head_size + d)] +=
            steps.weights[static_cast<size_t>(row * s.keys + t)] *
            v[static_cast<size_t>((kv + t) * s.head_size + d)];
  }
  return steps;
}

}  // namespace

AttentionSteps attention(const std::vector<double>& q, const std::vector<double>& k,
                         const std::vector<double>& v, const AttentionShape& s, double scale,
                         AttentionView view) {
  return steps_of(q, k, v, s, scale, [&](int64_t /*b*/, int64_t i, int64_t t) {
    return view == AttentionView::full || t <= i + s.keys - s.queries;
  });
}

AttentionSteps attention(const std::vector<double>& q, const std::vector<double>& k,
                         const std::vector<double>& v, const AttentionShape& s, double scale,
                         const std::vector<uint8_t>& mask) {
  check("mask", mask.size(), s.batch * s.queries * s.keys);
  return steps_of(q, k, v, s, scale, [&](int64_t b, int64_t i, int64_t t) {
    return mask[static_cast<size_t>((b * s.queries + i) * s.keys + t)] != 0;
  });
}

std::vector<OnlineSoftmaxStep> online_softmax(const std::vector<double>& x, int64_t block) {
  if (block < 1) fail(ErrorCode::invalid_argument, "online_softmax: block is {}, wanted 1", block);
  std::vector<OnlineSoftmaxStep> steps;
  double max = kUnseen, sum = 0;
  for (size_t at = 0; at < x.size(); at += static_cast<size_t>(block)) {
    OnlineSoftmaxStep step;
    const size_t end = std::min(x.size(), at + static_cast<size_t>(block));
    step.block.assign(x.begin() + static_cast<std::ptrdiff_t>(at),
                      x.begin() + static_cast<std::ptrdiff_t>(end));
    step.max = std::max(max, *std::max_element(step.block.begin(), step.block.end()));
    step.factor = sum == 0 ? 0 : std::exp(max - step.max);
    step.sum = sum * step.factor;
    for (const double v : step.block) step.sum += std::exp(v - step.max);
    max = step.max;
    sum = step.sum;
    steps.push_back(step);
  }
  return steps;
}

}  // namespace strata
