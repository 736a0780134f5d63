#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/exec.h"
#include "model/model.h"

namespace strata {

// Whether a kind of tensor is in the file.
enum class Presence : uint8_t { absent, present, as_found };

struct LayerSpec {
  int window = 0;
  int rope = -1;  // index into ModelSpec::ropes; -1: no rotary positions
  double attention_scale = 1;
};

// What a configuration says about the forward pass before any tensor is looked at: an architecture
// is a function that fills this from its keys, and a name map (name_map.h).
struct ModelSpec {
  ModelConfig config;
  std::vector<LayerSpec> layers;  // L
  std::vector<Rope> ropes;
  NormKind norm = NormKind::rms;
  double norm_epsilon = 1e-5;
  double norm_weight_offset = 0;
  Activation activation = Activation::silu;
  double embedding_scale = 1;
  bool gated_mlp = true;
  bool qk_norm = false;
  bool post_norms = false;
  bool learned_positions = false;
  Presence qkv_bias = Presence::absent;
  Presence output_bias = Presence::absent;
  Presence mlp_bias = Presence::absent;
  Presence own_head = Presence::as_found;  // absent: the head is the embedding table

  // The keys the sizes came from, for messages about tensors that contradict them.
  struct Keys {
    std::string vocabulary_size, hidden_size, mlp_size, heads, kv_heads, head_size, context_length;
  } keys;
};

class GgufKeys;
class JsonKeys;

// Throw data_corrupt for values that cannot be, unsupported for architectures and values that
// change the mathematics in a way strata does not implement. config.inert_keys and unknown_keys
// are filled.
ModelSpec read_gguf_spec(GgufKeys& keys);
ModelSpec read_hf_spec(JsonKeys& keys);

// Bounds on what a configuration may ask for, far above any model: they keep products of sizes
// within int64_t and loops within seconds before the tensors are compared.
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxHeads = 1 << 16;
inline constexpr int64_t kMaxHeadSize = 1 << 14;
inline constexpr int64_t kMaxWidth = int64_t{1} << 26;
inline constexpr int64_t kMaxVocabulary = int64_t{1} << 28;
// A context is only a promise: larger ones are read as this one.
inline constexpr int64_t kMaxContext = int64_t{1} << 30;

}  // namespace strata
