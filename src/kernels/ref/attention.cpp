#include "kernels/ref/attention.h"

#include <algorithm>
#include <cmath>

namespace strata::ref {

AttentionResult attention(const float* q, const float* keys, const float* values, int head_size,
                          double scale, int64_t begin, int64_t end) {
  const auto size = static_cast<size_t>(head_size);
  AttentionResult result;
  result.y.resize(size);
  result.value.resize(size);
  if (begin >= end) return result;
  std::vector<double> weight;
  double largest = -HUGE_VAL;
  for (int64_t t = begin; t < end; ++t) {
    double score = 0, magnitude = 0;
    for (int d = 0; d < head_size; ++d) {
      const double product = scale * q[d] * keys[t * head_size + d];
      score += product;
      magnitude += std::abs(product);
    }
    weight.push_back(score);
    largest = std::max(largest, score);
    result.score_scale = std::max(result.score_scale, magnitude);
  }
  double sum = 0;
  for (double& w : weight) sum += w = std::exp(w - largest);
  for (int64_t t = begin; t < end; ++t) {
    const double w = weight[static_cast<size_t>(t - begin)] / sum;
    for (int d = 0; d < head_size; ++d) {
      result.y[static_cast<size_t>(d)] += w * values[t * head_size + d];
      result.value[static_cast<size_t>(d)] += w * std::abs(values[t * head_size + d]);
    }
  }
  return result;
}

}  // namespace strata::ref
