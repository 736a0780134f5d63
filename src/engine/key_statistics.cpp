#include "engine/key_statistics.h"

#include <cmath>

namespace strata {
namespace {

// The element of a head that turns with element d; d itself where none does.
int64_t partner(const Rope* rope, int64_t d) {
  if (rope == nullptr) return d;
  const auto pairs = static_cast<int64_t>(rope->inverse_frequency.size());
  if (d >= 2 * pairs) return d;
  if (rope->layout == Rope::Layout::pairs) return d ^ 1;
  return d < pairs ? d + pairs : d - pairs;
}

}  // namespace

KeyStatistics::KeyStatistics(const AttentionConfig& config, RopeTable* table)
    : config_(config),
      no_bias_(static_cast<size_t>(config.kv_heads) * static_cast<size_t>(config.head_size)),
      rotary_(no_bias_.data(), nullptr, config, table),
      turned_(static_cast<size_t>(config.head_size)),
      moments_(no_bias_.size()) {}

template <class Fn>
void KeyStatistics::for_elements(int64_t position, const float* head, Fn fn) {
  rotary_.before_rope(position, head, turned_.data());
  for (size_t d = 0; d < turned_.size(); ++d) fn(d, static_cast<double>(turned_[d]));
}

void KeyStatistics::add(const Tensor& keys, const Tensor& queries,
                        std::span<const int32_t> positions) {
  const int group = config_.heads / config_.kv_heads;
  for (int64_t r = 0; r < keys.rows; ++r) {
    const int32_t position = positions[static_cast<size_t>(r)];
    ++(position == 0 ? first_count_ : count_);
    for (int64_t h = 0; h < config_.kv_heads; ++h) {
      Moments* const of_head = moments_.data() + h * config_.head_size;
      if (position == 0) {
        for_elements(0, keys.row<float>(r) + h * config_.head_size,
                     [&](size_t d, double x) { of_head[d].first_key += x; });
        continue;
      }
      for_elements(position, keys.row<float>(r) + h * config_.head_size, [&](size_t d, double x) {
        of_head[d].key += x;
        of_head[d].key_square += x * x;
      });
      for (int64_t q = h * group; q < (h + 1) * group; ++q)
        for_elements(position, queries.row<float>(r) + q * config_.head_size,
                     [&](size_t d, double x) { of_head[d].query_square += x * x; });
    }
  }
}

std::vector<float> KeyStatistics::mean_of(double Moments::*sum, int64_t count) const {
  std::vector<float> mean(moments_.size());
  if (count == 0) return mean;
  for (size_t i = 0; i < mean.size(); ++i)
    mean[i] = static_cast<float>(moments_[i].*sum / static_cast<double>(count));
  return mean;
}
std::vector<float> KeyStatistics::mean() const { return mean_of(&Moments::key, count_); }
std::vector<float> KeyStatistics::first_mean() const {
  return mean_of(&Moments::first_key, first_count_);
}

std::vector<float> KeyStatistics::scales() const {
  std::vector<float> scales(moments_.size(), 1);
  const auto n = static_cast<double>(count_);
  const double group = static_cast<double>(config_.heads) / config_.kv_heads;
  const auto variance = [&](const Moments& m) {
    return m.key_square / n - m.key * m.key / (n * n);
  };
  for (size_t i = 0; count_ > 0 && i < scales.size(); ++i) {
    const auto d = static_cast<int64_t>(i) % config_.head_size;
    const Moments &a = moments_[i], &b = moments_[i - static_cast<size_t>(d) +
                                                  static_cast<size_t>(partner(config_.rope, d))];
    const double key = variance(a) + variance(b);
    const double query = (a.query_square + b.query_square) / (n * group);
    if (key > 0 && query > 0) scales[i] = static_cast<float>(std::pow(query / key, 1.0 / 8));
  }
  return scales;
}

}  // namespace strata
