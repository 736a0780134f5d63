#include "train/parameters.h"

#include <algorithm>

#include "train/memory_tensors.h"

namespace strata {
namespace {

constexpr int64_t kLineFloats = 16;
int64_t padded(const WeightRef& w) {
  return (w.out * w.in + kLineFloats - 1) / kLineFloats * kLineFloats;
}

}  // namespace

ParameterTable::ParameterTable(const Model& model, const Trainable& trainable) {
  const auto* memory = dynamic_cast<const MemoryTensors*>(model.store.get());
  int64_t values = 0, gradients = 0;
  for (const WeightRef& w : model.weights) {
    if (memory == nullptr) values += padded(w);
    if (!trainable || trainable(w)) gradients += padded(w);
  }
  values_ = AlignedBuffer(static_cast<size_t>(values) * sizeof(float), HugePages::advise);
  gradient_floats_ = static_cast<size_t>(gradients);
  gradients_ = AlignedBuffer(gradient_floats_ * sizeof(float), HugePages::advise);
  zero_gradients();
  float* value = values_.as<float>();
  float* gradient = gradients_.as<float>();
  for (const WeightRef& w : model.weights) {
    Parameter p{w.name, w.out, w.in, nullptr, nullptr};
    if (memory != nullptr) {
      p.value = memory->values(w);
    } else {
      p.value = value;
      value += padded(w);
      for (int64_t r = 0; r < w.out; ++r) decode_weight_row(w, r, p.value + r * w.in);
    }
    if (!trainable || trainable(w)) {
      p.gradient = gradient;
      gradient += padded(w);
      trainable_count_ += p.size();
    }
    parameters_.push_back(std::move(p));
  }
}

void ParameterTable::zero_gradients() {
  std::fill_n(gradients_.as<float>(), gradient_floats_, 0.0f);
}

}  // namespace strata
