#pragma once

#include <cstdint>
#include <memory>

#include "model/model.h"

namespace strata {

// A small model with random weights in memory, for tests of executors.
struct RandomModelOptions {
  uint32_t seed = 1;
  int layers = 3;
  int heads = 6, kv_heads = 2, head_size = 32;
  int64_t hidden = 96, mlp = 160, vocabulary = 211, context = 2048;
  TensorType linear_type = TensorType::q8_0;
  TensorType embedding_type = TensorType::q8_0;
  bool tied_head = true;
  bool qkv_bias = false, qk_norm = false, post_norm = false;
  bool layer_norm = false, learned_positions = false, gated_mlp = true;
  Activation activation = Activation::silu;
  Rope::Layout rope = Rope::Layout::halves;
  int window = 0;  // of every layer but the last, which sees everything
};

// Weights of both signs, sized so that logits spread over several units.
std::unique_ptr<Model> random_model(const RandomModelOptions& options);

}  // namespace strata
