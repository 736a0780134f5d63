#include "engine/rotary_key_bias.h"

#include <algorithm>

#include "kernels/attention.h"

namespace strata {

RotaryKeyBias::RotaryKeyBias(const float* bias, const float* first_bias,
                             const AttentionConfig& config, RopeTable* table)
    : bias_(bias),
      first_bias_(first_bias != nullptr ? first_bias : bias),
      head_size_(config.head_size),
      table_(table) {
  int64_t positions = kChunkTokens;
  if (table != nullptr) {
    positions = std::min(positions, table->context());
    table->fill_to(positions - 1);
    undo_factor_ = static_cast<float>(1 / table->rope()->attention_factor);
  }
  panels_ = panels(config, positions, bias_);
  if (first_bias_ != bias_) first_panels_ = panels(config, positions, first_bias_);
}

std::vector<float> RotaryKeyBias::panels(const AttentionConfig& config, int64_t positions,
                                         const float* first) const {
  std::vector<float> panels(
      static_cast<size_t>(int64_t{config.kv_heads} * kChunkTokens * head_size_));
  std::vector<float> turned(static_cast<size_t>(head_size_));
  for (int head = 0; head < config.kv_heads; ++head)
    for (int64_t t = 0; t < positions; ++t) {
      turn(t, 1, 1, (t == 0 ? first : bias_) + int64_t{head} * head_size_, turned.data());
      float* panel = panels.data() +
                     (head * int64_t{kChunkPanels} + t / kPanelTokens) * kPanelTokens * head_size_;
      for (int d = 0; d < head_size_; ++d)
        panel[d * kPanelTokens + t % kPanelTokens] = turned[static_cast<size_t>(d)];
    }
  return panels;
}

const float* RotaryKeyBias::panel(int kv_head, int32_t chunk) const {
  const std::vector<float>& panels = chunk == 0 && !first_panels_.empty() ? first_panels_ : panels_;
  return panels.data() + int64_t{kv_head} * kChunkTokens * head_size_;
}

void RotaryKeyBias::remove(int64_t position, int kv_head, float* key) const {
  const float* bias = of_head(position, kv_head);
  int64_t turned = 0;
  for_pairs(position, [&](int64_t i, int64_t j, float cosine, float sine) {
    key[i] -= bias[i] * cosine - bias[j] * sine;
    key[j] -= bias[j] * cosine + bias[i] * sine;
    turned += 2;
  });
  for (int64_t d = turned; d < head_size_; ++d) key[d] -= bias[d];
}

void RotaryKeyBias::turn_back(int64_t position, const float* q, float* out) const {
  turn(position, -1, undo_factor_, q, out);
}

void RotaryKeyBias::before_rope(int64_t position, const float* key, float* out) const {
  turn(position, -1, undo_factor_ * undo_factor_, key, out);
}

template <class Fn>
void RotaryKeyBias::for_pairs(int64_t position, Fn fn) const {
  if (table_ == nullptr) return;
  const float* cosines = table_->cosines(position);
  const float* sines = table_->sines(position);
  const int64_t pairs = table_->size();
  if (table_->rope()->layout == Rope::Layout::halves) {
    for (int64_t i = 0; i < pairs; ++i) fn(i, i + pairs, cosines[i], sines[i]);
  } else {
    for (int64_t i = 0; i < pairs; ++i) fn(2 * i, 2 * i + 1, cosines[2 * i], sines[2 * i + 1]);
  }
}

void RotaryKeyBias::turn(int64_t position, float direction, float factor, const float* x,
                         float* out) const {
  std::copy_n(x, head_size_, out);
  for_pairs(position, [&](int64_t i, int64_t j, float cosine, float sine) {
    const float c = cosine * factor, s = sine * factor * direction;
    out[i] = x[i] * c - x[j] * s;
    out[j] = x[j] * c + x[i] * s;
  });
}

}  // namespace strata
