#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "train/gpt_model.h"
#include "train/optimizer.h"
#include "train/schedule.h"

namespace strata {

// Everything that decides what a run computes. One member is one key: a flag of `strata train`, a
// key of its TOML file and of a checkpoint's state. The defaults are those of preset "tiny".
struct TrainConfig {
  // Model.
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t kv_heads = 0;  // 0: as heads
  int64_t hidden = 64;
  int64_t mlp = 0;  // 0: 4 hidden; 8/3 hidden rounded up to 32 where gated
  int64_t context = 64;
  std::string positions = "learned";
  std::string norm = "layer";
  std::string activation = "gelu";
  bool gated = false;
  bool bias = true;
  bool tied = true;
  double rope_base = 10000;
  double dropout = 0;
  // Data.
  std::string tokenizer = "characters";  // or a tokenizer.json
  double validation_share = 0.1;
  // Optimisation.
  int64_t steps = 1000;
  int64_t batch = 16;        // sequences of a micro-batch
  int64_t accumulation = 1;  // micro-batches of a step
  std::string optimizer = "adamw";
  double lr = 1e-3;
  double min_lr = 1e-4;
  std::string schedule = "cosine";
  int64_t warmup = 50;
  double decay_share = 0.2;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.95;
  double weight_decay = 0.1;
  double clip = 1;
  double smoothing = 0;
  double ema = 0;             // decay of averaged weights; 0: none
  std::string dtype = "f32";  // of the matrices that products read
  int64_t seed = 1337;
  std::string recompute = "cheap";
  // Reports.
  int64_t eval_every = 100;
  int64_t sample_every = 0;
  int64_t save_every = 0;   // 0: at each evaluation
  int64_t norms_every = 0;  // 0: at each evaluation
  int64_t early_stop = 0;   // evaluations without improvement; 0: never
};

// One key as text, for flags, TOML files and checkpoints.
struct ConfigKey {
  std::string name;  // "weight-decay"
  std::string help;
  std::function<std::string(const TrainConfig&)> get;
  // Throws Error{invalid_argument} naming the key for text that is no such value.
  std::function<void(TrainConfig&, const std::string&)> set;
};
const std::vector<ConfigKey>& config_keys();

// "tiny", "shakespeare-cpu", "shakespeare", "gpt2-124m". Throws Error{invalid_argument} naming
// those there are.
TrainConfig preset(std::string_view name);
std::vector<std::string> preset_names();

// Throws Error{invalid_argument} for values that cannot be, and for keys of `given` that nothing
// reads as the others are set (momentum with adamw).
void check_config(const TrainConfig& config, const std::set<std::string>& given);

// What to say of dtype bf16 at this level, "" where there is nothing to say.
std::string dtype_note(const TrainConfig& config, IsaLevel level);

// The keys that change no result, so that they may differ when a run goes on.
bool only_reports(const TrainConfig& config, std::string_view key);

GptConfig gpt_config(const TrainConfig& config, int64_t vocabulary);
Schedule schedule_of(const TrainConfig& config);
OptimizerOptions optimizer_options(const TrainConfig& config);

}  // namespace strata
