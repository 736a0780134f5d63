#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "base/thread_pool.h"
#include "exec/weight_ref.h"
#include "model/model.h"
#include "tensor/tensor.h"

namespace strata {

// One tensor of a model as training sees it: f32 master and gradient, both [out, in], contiguous;
// where products read bf16, a matrix they read has a rounded copy as well, which stands for it in
// forward and backward. Only the optimizer and files see the master of such a one.
struct Parameter {
  std::string name;  // canonical: "blk.3.attn_q.weight"
  int64_t out = 0;
  int64_t in = 0;
  float* value = nullptr;
  float* gradient = nullptr;    // nullptr: frozen
  uint16_t* rounded = nullptr;  // bf16; nullptr: what passes read is the master

  bool trainable() const { return gradient != nullptr; }
  bool matrix() const { return out > 1; }
  int64_t size() const { return out * in; }
  Tensor values() const { return {DType::f32, out, in, in, value, -1}; }
  // What passes read: f32 or bf16.
  Tensor operand() const {
    return rounded == nullptr ? values() : Tensor{DType::bf16, out, in, in, rounded, -1};
  }
  Tensor gradients() const { return {DType::f32, out, in, in, gradient, -1}; }
};

// The masters and gradients of all weights of a model, by WeightRef::id: tied weights are one. The
// model outlives the table; frozen tensors have no gradient memory.
class ParameterTable {
 public:
  using Trainable = std::function<bool(const WeightRef&)>;

  // Masters are the model's own memory where it has some (MemoryTensors), else decoded copies.
  // `trainable` empty: all. `operands`: what products read of matrices, f32 or bf16. A table of
  // positions, and of tokens unless the head is that table too, is no operand of a product.
  // Throws Error{resource_exhausted} without memory.
  explicit ParameterTable(const Model& model, const Trainable& trainable = {},
                          DType operands = DType::f32);

  // nullptr for an absent weight.
  const Parameter* find(const WeightRef& w) const {
    return w ? &parameters_[static_cast<size_t>(w.id)] : nullptr;
  }
  std::span<const Parameter> all() const { return parameters_; }
  int64_t trainable_count() const { return trainable_count_; }
  // All gradients in one piece, padding included (zeros).
  std::span<float> gradients() const { return {gradients_.as<float>(), gradient_floats_}; }
  void zero_gradients();
  // The rounded copies become their masters, to nearest even. Whoever writes masters calls it
  // before the next pass; a new table's copies are right.
  void round_operands(ThreadPool& pool) const;
  size_t rounded_bytes() const { return rounded_.size(); }
  size_t held_bytes() const { return values_.size() + gradients_.size() + rounded_.size(); }

  // While one lives, masters that have a rounded copy hold its values, so that a model whose memory
  // they are (MemoryTensors) is the one passes compute with. What they held comes back bit for bit.
  // Throws Error{resource_exhausted} without memory for it.
  class AsComputed {
   public:
    explicit AsComputed(const ParameterTable& table);
    ~AsComputed();
    AsComputed(const AsComputed&) = delete;
    AsComputed& operator=(const AsComputed&) = delete;

   private:
    const ParameterTable& table_;
    AlignedBuffer masters_;
  };

 private:
  AlignedBuffer values_;
  AlignedBuffer gradients_;
  AlignedBuffer rounded_;
  size_t gradient_floats_ = 0;
  int64_t trainable_count_ = 0;
  std::vector<Parameter> parameters_;
};

}  // namespace strata
