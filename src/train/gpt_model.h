#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/model.h"

namespace strata {

enum class GptPositions : uint8_t {
  learned,
  sinusoidal,  // a fixed table: sines and cosines of wave lengths 2 pi to 20,000 pi
  rotary,
};

// What a GPT that is trained from nothing looks like.
struct GptConfig {
  int64_t vocabulary = 0;
  int layers = 1;
  int heads = 1;
  int kv_heads = 1;
  int64_t hidden = 64;
  int64_t mlp = 256;
  int64_t context = 64;
  GptPositions positions = GptPositions::learned;
  NormKind norm = NormKind::layer;
  bool gated = false;  // SwiGLU and its like, else a plain activation
  Activation activation = Activation::gelu_tanh;
  bool bias = true;  // of all projections
  bool tied = true;  // the head is the embedding
  double norm_epsilon = 1e-5;
  double rope_base = 10000;
};

// Which file layout can say what a GptConfig is, so that other programs load it.
enum class GptLayout : uint8_t {
  gpt2,    // table of positions, layer norm, plain activation, all biases (zeros where it has none)
  llama,   // rotary, RMS norm, gated SiLU, no biases
  strata,  // any other combination: only strata reads it
};
GptLayout gpt_layout(const GptConfig& config);

// A model in memory (MemoryTensors) with GPT-2's initialisation: matrices normal with deviation
// 0.02, those that add to the residual stream 0.02 / sqrt(2 layers); norms one, biases zero. Every
// number is its own draw of the seed, so it depends on nothing else. Throws
// Error{invalid_argument} naming the sizes that do not fit together.
std::unique_ptr<Model> make_gpt(const GptConfig& config, uint64_t seed);

// Whether the weight learns: a sinusoidal table does not.
bool is_trainable(const GptConfig& config, const WeightRef& w);

}  // namespace strata
