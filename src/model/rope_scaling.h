#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/exec.h"

namespace strata {

// How rotary positions are made from a model's configuration, in double precision.
struct RopeParameters {
  enum class Scaling : uint8_t {
    none,
    linear,  // every frequency divided by factor
    llama3,  // slow frequencies divided by factor, fast ones kept, a ramp between
    yarn,  // likewise over dimensions instead of wave lengths; attention scaled (Peng et al. 2023)
  };
  int dimensions = 0;  // rotated dimensions of a head, even
  double base = 10000;
  Scaling scaling = Scaling::none;
  double factor = 1;
  double original_context = 0;             // llama3, yarn
  double low_frequency_factor = 1;         // llama3
  double high_frequency_factor = 4;        // llama3
  double beta_fast = 32;                   // yarn: rotations over original_context above which a
  double beta_slow = 1;                    // frequency is kept, and below which it is divided
  bool truncate = true;                    // yarn: the ends of the ramp are whole dimensions
  std::optional<double> attention_factor;  // yarn; default 0.1 ln(factor) + 1
};

// Source of the formulas: arXiv:2309.00071 (yarn), the Llama 3.1 release (llama3), both as
// transformers computes them.
Rope make_rope(const RopeParameters& p, Rope::Layout layout);

// 0.1 * multiplier * ln(factor) + 1 for factor > 1, else 1: yarn's scale of attention.
double yarn_attention_scale(double factor, double multiplier = 1);

}  // namespace strata
