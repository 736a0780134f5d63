#pragma once

#include <vector>

#include "exec/exec.h"
#include "exec/rope_table.h"
#include "ops/key_bias.h"

namespace strata {

// The bias of one layer's key projection under its rope.
class RotaryKeyBias final : public KeyBias {
 public:
  // bias [Hk * Dh], that of position 0 alone (null: the same) and the table, if the layer has one,
  // outlive this; the table has to be filled to the last position asked for, as ServeExec::begin()
  // does.
  RotaryKeyBias(const float* bias, const float* first_bias, const AttentionConfig& config,
                RopeTable* table);

  const float* panel(int kv_head, int32_t chunk) const override;
  void remove(int64_t position, int kv_head, float* key) const override;
  void turn_back(int64_t position, const float* q, float* out) const override;
  // out [Dh] = what rope made `key` [Dh] of.
  void before_rope(int64_t position, const float* key, float* out) const;

 private:
  // Calls fn(i, j, cosine, sine) for each pair of elements that turns at `position`.
  template <class Fn>
  void for_pairs(int64_t position, Fn fn) const;
  // out = R_position x, or R_-position x with direction -1; both times `factor`.
  void turn(int64_t position, float direction, float factor, const float* x, float* out) const;

  const float* of_head(int64_t position, int kv_head) const {
    return (position == 0 ? first_bias_ : bias_) + int64_t{kv_head} * head_size_;
  }
  // Of the chunk whose first position has `first`.
  std::vector<float> panels(const AttentionConfig& config, int64_t positions,
                            const float* first) const;

  const float *bias_, *first_bias_;
  int head_size_;
  const RopeTable* table_;
  float undo_factor_ = 1;            // 1 / Rope::attention_factor
  std::vector<float> panels_;        // [Hk][kChunkPanels][Dh][16]
  std::vector<float> first_panels_;  // of chunk 0; empty: the same
};

}  // namespace strata
