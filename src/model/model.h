#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/tensor_store.h"
#include "model/transformer.h"

namespace strata {

// The numbers of a model, whatever file they came from (config.json or GGUF metadata).
struct ModelConfig {
  std::string architecture;  // "llama", "mistral", "qwen2", "qwen3", "gemma3", "gpt2"
  std::string name;          // as the file calls it, for people
  int64_t vocabulary_size = 0;
  int64_t hidden_size = 0;  // D
  int64_t mlp_size = 0;     // F
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_size = 0;
  int64_t context_length = 0;
  bool tied_head = false;
  std::vector<std::string> inert_keys;    // known and without effect on the mathematics
  std::vector<std::string> unknown_keys;  // warned about; an error with LoadOptions::strict
};

// Layers that keep the same keys: one page table per sequence and group.
struct LayerGroup {
  int window = 0;           // 0: all positions
  std::vector<int> layers;  // ascending
};

// A model as files define it: configuration, the forward pass over its weights, and the mapping the
// weights lie in. Executors prepare their own copies and may then release the mapping's pages.
struct Model {
  ModelConfig config;
  Transformer transformer;
  std::vector<LayerGroup> layer_groups;
  std::vector<WeightRef> weights;  // weights[i].id == i
  std::vector<std::unique_ptr<Rope>> ropes;
  std::unique_ptr<TensorStore> store;
  std::filesystem::path path;
  // sha256 over header, tensor table and sampled bytes of the files: names the model without a full
  // read.
  std::string hash;
  int64_t parameter_count = 0;
};

struct LoadOptions {
  bool strict = false;  // unknown keys are errors
};

// `what`: a catalogue name, a .gguf file or a folder. Throws not_found, data_corrupt (naming file
// and key or tensor), unsupported (naming what the mathematics would need).
std::filesystem::path resolve_model_path(const std::string& what);
std::unique_ptr<Model> load_model(const std::filesystem::path& path,
                                  const LoadOptions& options = {});

}  // namespace strata
