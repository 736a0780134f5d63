#include "engine/key_mean.h"

namespace strata {

KeyMean::KeyMean(const AttentionConfig& config, RopeTable* table)
    : head_size_(config.head_size),
      no_bias_(static_cast<size_t>(config.kv_heads) * static_cast<size_t>(config.head_size)),
      rotary_(no_bias_.data(), config, table),
      sums_(no_bias_.size()) {}

void KeyMean::add(const Tensor& keys, std::span<const int32_t> positions) {
  std::vector<float> turned(static_cast<size_t>(head_size_));
  for (int64_t r = 0; r < keys.rows; ++r) {
    const int32_t position = positions[static_cast<size_t>(r)];
    if (position == 0) continue;
    ++count_;
    for (int64_t at = 0; at < keys.columns; at += head_size_) {
      rotary_.before_rope(position, keys.row<float>(r) + at, turned.data());
      for (int64_t d = 0; d < head_size_; ++d)
        sums_[static_cast<size_t>(at + d)] += static_cast<double>(turned[static_cast<size_t>(d)]);
    }
  }
}

std::vector<float> KeyMean::mean() const {
  std::vector<float> mean(sums_.size());
  if (count_ == 0) return mean;
  for (size_t i = 0; i < mean.size(); ++i)
    mean[i] = static_cast<float>(sums_[i] / static_cast<double>(count_));
  return mean;
}

}  // namespace strata
