#include "kernels/ref/attention.h"

#include <algorithm>
#include <cmath>

namespace strata::ref {

AttentionResult attention(const float* q, const float* keys, const float* values, int head_size,
                          double scale, const Visible& visible, double soft_cap) {
  const auto size = static_cast<size_t>(head_size);
  AttentionResult result;
  result.y.resize(size);
  result.value.resize(size);
  std::vector<int64_t> seen;
  for (int64_t t = 0; t < visible.end; ++t)
    if (visible(t)) seen.push_back(t);
  if (seen.empty()) return result;
  std::vector<double> weight;
  double largest = -HUGE_VAL;
  for (const int64_t t : seen) {
    double score = 0, magnitude = 0;
    for (int d = 0; d < head_size; ++d) {
      const double product = scale * q[d] * keys[t * head_size + d];
      score += product;
      magnitude += std::abs(product);
    }
    if (soft_cap > 0) score = soft_cap * std::tanh(score / soft_cap);
    weight.push_back(score);
    largest = std::max(largest, score);
    result.score_scale = std::max(result.score_scale, magnitude);
  }
  double sum = 0;
  for (double& w : weight) sum += w = std::exp(w - largest);
  for (size_t i = 0; i < seen.size(); ++i) {
    const double w = weight[i] / sum;
    for (int d = 0; d < head_size; ++d) {
      const double value = values[seen[i] * head_size + d];
      result.y[static_cast<size_t>(d)] += w * value;
      result.value[static_cast<size_t>(d)] += w * std::abs(value);
    }
  }
  return result;
}

}  // namespace strata::ref
