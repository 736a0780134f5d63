#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/rotary_key_bias.h"
#include "exec/exec.h"
#include "exec/rope_table.h"

namespace strata {

// What q4 wants to know of a layer's keys and queries, over the rows of some passes: scores lose
// less when what keys have in common is left out of the codes, and when the elements that queries
// look at most are stored larger than the others.
class KeyStatistics {
 public:
  // The table, if the layer has one, outlives this and is filled to the last position added.
  KeyStatistics(const AttentionConfig& config, RopeTable* table);

  // keys [N, Hk * Dh] and queries [N, H * Dh], after rope. First positions count for first_mean()
  // alone: many models make their keys unlike all others, to rest attention on.
  void add(const Tensor& keys, const Tensor& queries, std::span<const int32_t> positions);

  // The mean of the keys before rope, [Hk * Dh]; zeros before anything was added. It serves as a
  // KeyBias and has in it the projection's own bias.
  std::vector<float> mean() const;
  // The same of the keys at position 0.
  std::vector<float> first_mean() const;
  // (E q^2 / E (k - mean)^2)^(1/8), [Hk * Dh], both over the elements that rope turns together, so
  // that it is the same before rope and after; 1 where either is 0. With 1/4 the error of a key
  // would weigh the same in every element; half of that did best (docs/results/kernels.md).
  std::vector<float> scales() const;

 private:
  struct Moments {
    double key = 0, key_square = 0, query_square = 0;  // sums over rows, and over a group's queries
    double first_key = 0;
  };
  template <class Fn>  // fn(element of the head, its value before rope)
  void for_elements(int64_t position, const float* head, Fn fn);
  std::vector<float> mean_of(double Moments::*sum, int64_t count) const;

  AttentionConfig config_;
  std::vector<float> no_bias_;
  RotaryKeyBias rotary_;
  std::vector<float> turned_;            // [Dh]
  std::vector<Moments> moments_;         // [Hk * Dh]
  int64_t count_ = 0, first_count_ = 0;  // rows
};

}  // namespace strata
