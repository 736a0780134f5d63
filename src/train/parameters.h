#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "exec/weight_ref.h"
#include "model/model.h"
#include "tensor/tensor.h"

namespace strata {

// One tensor of a model as training sees it: f32 master and gradient, both [out, in], contiguous.
struct Parameter {
  std::string name;  // canonical: "blk.3.attn_q.weight"
  int64_t out = 0;
  int64_t in = 0;
  float* value = nullptr;
  float* gradient = nullptr;  // nullptr: frozen

  bool trainable() const { return gradient != nullptr; }
  bool matrix() const { return out > 1; }
  int64_t size() const { return out * in; }
  Tensor values() const { return {DType::f32, out, in, in, value, -1}; }
  Tensor gradients() const { return {DType::f32, out, in, in, gradient, -1}; }
};

// The masters and gradients of all weights of a model, by WeightRef::id: tied weights are one. The
// model outlives the table; frozen tensors have no gradient memory.
class ParameterTable {
 public:
  using Trainable = std::function<bool(const WeightRef&)>;

  // Masters are the model's own memory where it has some (MemoryTensors), else decoded copies.
  // `trainable` empty: all. Throws Error{resource_exhausted} without memory.
  explicit ParameterTable(const Model& model, const Trainable& trainable = {});

  // nullptr for an absent weight.
  const Parameter* find(const WeightRef& w) const {
    return w ? &parameters_[static_cast<size_t>(w.id)] : nullptr;
  }
  std::span<const Parameter> all() const { return parameters_; }
  int64_t trainable_count() const { return trainable_count_; }
  // All gradients in one piece, padding included (zeros).
  std::span<float> gradients() const { return {gradients_.as<float>(), gradient_floats_}; }
  void zero_gradients();
  size_t held_bytes() const { return values_.size() + gradients_.size(); }

 private:
  AlignedBuffer values_;
  AlignedBuffer gradients_;
  size_t gradient_floats_ = 0;
  int64_t trainable_count_ = 0;
  std::vector<Parameter> parameters_;
};

}  // namespace strata
