#include "train/weight_average.h"

#include <algorithm>
#include <cmath>

namespace strata {
namespace {

constexpr int64_t kLineFloats = 16;
constexpr int64_t kGrain = 8192;  // elements worth another thread

int64_t padded(int64_t n) { return (n + kLineFloats - 1) / kLineFloats * kLineFloats; }

}  // namespace

WeightAverage::WeightAverage(const ParameterTable& parameters, double decay,
                             const OpContext& context)
    : parameters_(parameters), decay_(decay), context_(context) {
  int64_t floats = 0;
  for (const Parameter& p : parameters.all())
    if (p.trainable()) floats += padded(p.size());
  memory_ = AlignedBuffer(static_cast<size_t>(floats) * sizeof(float), HugePages::advise);
  auto* at = memory_.as<float>();
  std::fill_n(at, floats, 0.0f);
  for (const Parameter& p : parameters.all()) {
    if (!p.trainable()) continue;
    entries_.push_back({&p, {at, static_cast<size_t>(p.size())}});
    at += padded(p.size());
  }
}

void WeightAverage::add(int64_t step) {
  const double share = (1 - decay_) / (1 - std::pow(decay_, static_cast<double>(step)));
  const auto factor = static_cast<float>(share);
  for (const Entry& e : entries_) {
    const float* value = e.parameter->value;
    float* average = e.values.data();
    context_.pool->parallel_for(e.parameter->size(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) average[i] += factor * (value[i] - average[i]);
    });
  }
}

void WeightAverage::set_to_parameters() {
  for (const Entry& e : entries_) std::copy_n(e.parameter->value, e.values.size(), e.values.data());
}

void WeightAverage::exchange() {
  for (const Entry& e : entries_)
    std::swap_ranges(e.values.begin(), e.values.end(), e.parameter->value);
  parameters_.round_operands(*context_.pool);
}

}  // namespace strata
