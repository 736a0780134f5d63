#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "ops/context.h"
#include "ops/workspace.h"
#include "train/parameters.h"

namespace strata {

enum class OptimizerKind : uint8_t {
  adamw,
  sgd,   // with momentum
  lion,  // Chen et al. 2023 (arXiv:2302.06675)
  muon,  // Jordan et al. 2024, scaled as Liu et al. 2025 (arXiv:2502.16982): for the matrices
         // inside blocks, AdamW for the rest
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.95;     // sgd, muon
  double weight_decay = 0.1;  // decoupled, of matrices only: p shrinks by learning rate * this
};

// Updates a table's trainable parameters from their gradients, in place, and rounds the copies that
// products read; the same bits for any number of threads. The state is zero at first.
class Optimizer {
 public:
  // The table outlives the optimizer. Throws Error{resource_exhausted} without memory.
  Optimizer(const ParameterTable& parameters, const OptimizerOptions& options,
            const OpContext& context);

  // Step number `step` (from 1) with gradients times gradient_factor.
  void step(int64_t step, double learning_rate, float gradient_factor);

  // What a checkpoint keeps: "<parameter>.mean", "<parameter>.square" or "<parameter>.momentum".
  struct State {
    std::string name;
    const Parameter* parameter = nullptr;
    std::span<float> values;  // as many as the parameter has
  };
  std::span<const State> state() const { return state_; }
  size_t held_bytes() const { return memory_.size() + workspace_.held_bytes(); }

 private:
  bool uses_muon(const Parameter& p) const;
  void sgd(const State& momentum, double learning_rate, float factor);
  void lion(const State& mean, double learning_rate, float factor);
  void muon(const State& momentum, double learning_rate, float factor);

  const ParameterTable& parameters_;
  OptimizerOptions options_;
  OpContext context_;
  AlignedBuffer memory_;
  std::vector<State> state_;
  Workspace workspace_;
};

// The nearest matrix with orthogonal rows or columns, roughly: five steps of Newton and Schulz on
// x [rows, columns] in place; singular values end within about 0.7 .. 1.2.
void orthogonalise(const Tensor& x, Workspace& workspace, const OpContext& context);

}  // namespace strata
