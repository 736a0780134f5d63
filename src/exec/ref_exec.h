#pragma once

#include <functional>
#include <vector>

#include "exec/exec.h"
#include "tensor/arena.h"

namespace strata {

struct RefOptions {
  enum class Activations : uint8_t {
    exact,  // every value and every sum in double precision
    // What ServeExec computes with, its sums excepted: results of all operations are rounded to
    // f32, and the input of a linear with quantised weights becomes blocks of 32 int8 with one
    // scale (quantise_block below). Weights in f32, f16 or bf16 take their input as it is.
    int8,
  };
  enum class Kv : uint8_t { exact, f16, bf16 };  // what keys and values are rounded to

  Activations activations = Activations::exact;
  Kv kv = Kv::exact;
  bool cache_weights = false;  // decode each weight once and keep it, 4 bytes an element
  int threads = 1;
  // Receives what the forward pass observes.
  std::function<void(std::string_view name, int layer, const Tensor& t)> observer;
};

// The reading of a model that other executors are compared with: double precision, loops that say
// what is meant, no cache (every sequence of the batch is there from position 0). Tensors are f64
// in every mode. A row's result depends on nothing but its own sequence.
class RefExec final : public Exec {
 public:
  explicit RefExec(RefOptions options = {}) : options_(std::move(options)) {}

  void begin(const Batch& batch) override;
  Tensor embed(const Embedding& w, const Batch& batch) override;
  Tensor norm(const Tensor& x, const Norm& w) override;
  Tensor attend(const Qkv& qkv, const AttentionConfig& c, int layer, const Batch& batch) override;
  Tensor linear(const Tensor& x, const Linear& w) override;
  Tensor add(const Tensor& a, const Tensor& b) override;
  Tensor take_rows(const Tensor& x, std::span<const int32_t> rows) override;
  Tensor logits(const Tensor& x, const Linear& head) override;
  void observe(std::string_view name, int layer, const Tensor& t) override;

  Tensor rope(const Tensor& x, int heads, int head_size, const Rope& rope,
              const Batch& batch) override;
  Tensor act(const Tensor& x, Activation activation) override;
  Tensor act_mul(const Tensor& gate, const Tensor& up, Activation activation) override;

  // Copies `values`, [rows, columns] one row after the other, into a tensor that lives until the
  // next begin(): feeds single operations with the recorded inputs of another executor.
  Tensor tensor_of(std::span<const float> values, int64_t rows, int64_t columns);

 private:
  Tensor new_tensor(int64_t rows, int64_t columns);
  // Rounds to f32 where the mode asks for it; every operation ends with it.
  Tensor finished(const Tensor& t) const;
  // Row `row` of the weight; `buffer` is where it goes unless the cache holds it.
  const float* weight_row(const WeightRef& w, int64_t row, std::vector<float>& buffer) const;
  // Decodes the whole weight into the cache (with cache_weights).
  void cache(const WeightRef& w);

  RefOptions options_;
  Arena arena_;
  std::vector<std::vector<float>> cached_;  // by WeightRef::id
};

// The int8 form of up to 32 activations as numeric/activation_block.h defines it; writes q * scale
// to out (in place allowed), NaN for a block that has an infinity or NaN.
void quantise_block(const double* x, int64_t count, double* out);

}  // namespace strata
