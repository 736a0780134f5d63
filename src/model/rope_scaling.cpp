#include "model/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace strata {
namespace {

double llama3_frequency(double frequency, const RopeParameters& p) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < p.original_context / p.high_frequency_factor) return frequency;
  if (wavelength > p.original_context / p.low_frequency_factor) return frequency / p.factor;
  const double kept = (p.original_context / wavelength - p.low_frequency_factor) /
                      (p.high_frequency_factor - p.low_frequency_factor);
  return (1 - kept) * frequency / p.factor + kept * frequency;
}

// The dimension that turns `rotations` times over the original context.
double yarn_dimension(double rotations, const RopeParameters& p) {
  return p.dimensions * std::log(p.original_context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(p.base));
}

struct Ramp {
  double low = 0;
  double high = 0;
};

Ramp yarn_ramp(const RopeParameters& p) {
  Ramp ramp{yarn_dimension(p.beta_fast, p), yarn_dimension(p.beta_slow, p)};
  if (p.truncate) ramp = {std::floor(ramp.low), std::ceil(ramp.high)};
  ramp.low = std::max(ramp.low, 0.0);
  ramp.high = std::min(ramp.high, static_cast<double>(p.dimensions - 1));
  if (ramp.low == ramp.high) ramp.high += 0.001;
  return ramp;
}

}  // namespace

double yarn_attention_scale(double factor, double multiplier) {
  return factor <= 1 ? 1 : 0.1 * multiplier * std::log(factor) + 1;
}

Rope make_rope(const RopeParameters& p, Rope::Layout layout) {
  Rope rope;
  rope.layout = layout;
  const bool yarn = p.scaling == RopeParameters::Scaling::yarn;
  const Ramp ramp = yarn ? yarn_ramp(p) : Ramp{};
  for (int i = 0; i < p.dimensions / 2; ++i) {
    double frequency = std::pow(p.base, -2.0 * i / p.dimensions);
    switch (p.scaling) {
      case RopeParameters::Scaling::none:
        break;
      case RopeParameters::Scaling::linear:
        frequency /= p.factor;
        break;
      case RopeParameters::Scaling::llama3:
        frequency = llama3_frequency(frequency, p);
        break;
      case RopeParameters::Scaling::yarn: {
        const double divided = std::clamp((i - ramp.low) / (ramp.high - ramp.low), 0.0, 1.0);
        frequency = frequency / p.factor * divided + frequency * (1 - divided);
        break;
      }
    }
    rope.inverse_frequency.push_back(frequency);
  }
  if (yarn) rope.attention_factor = p.attention_factor.value_or(yarn_attention_scale(p.factor));
  return rope;
}

}  // namespace strata
