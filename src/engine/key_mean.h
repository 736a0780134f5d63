#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/rotary_key_bias.h"
#include "exec/exec.h"
#include "exec/rope_table.h"

namespace strata {

// The mean of a layer's keys before rope, [Hk * Dh], over the positions of some passes. It serves
// as a KeyBias where the projection has no bias of its own: q4 loses about half as much then.
class KeyMean {
 public:
  // The table, if the layer has one, outlives this and is filled to the last position added.
  KeyMean(const AttentionConfig& config, RopeTable* table);

  // keys [N, Hk * Dh], after rope. First positions are left out: many models make their keys unlike
  // all others, to rest attention on.
  void add(const Tensor& keys, std::span<const int32_t> positions);
  // Zeros before anything was added.
  std::vector<float> mean() const;

 private:
  int head_size_;
  std::vector<float> no_bias_;
  RotaryKeyBias rotary_;
  std::vector<double> sums_;
  int64_t count_ = 0;
};

}  // namespace strata
