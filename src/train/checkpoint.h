#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include "train/gpt_model.h"
#include "train/optimizer.h"
#include "train/parameters.h"
#include "train/train_config.h"

namespace strata {

// What a run has come to, beside weights and optimizer state. Random numbers need no more than the
// step: every draw is made from (seed, step, place).
struct TrainState {
  TrainConfig config;
  int64_t vocabulary = 0;
  int64_t step = 0;                                                   // steps done
  int64_t tokens = 0;                                                 // trained on
  double seconds = 0;                                                 // of all runs together
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  // last measured
};

// A run's folder OUT is a Hugging Face folder of the newest checkpoint (its files are links into
// it), plus
//   OUT/trainer/step-00000500/   config.json, model.safetensors, tokenizer.json: the same folder
//                                optimizer.safetensors, state.json
//   OUT/metrics.jsonl, OUT/loss_curve.png, OUT/samples.txt
// A checkpoint is written under another name and renamed when whole: one that has its name is
// complete, whenever the process or the disk ended. Older ones than the newest `keep` are removed.

// Throws Error{resource_exhausted} when the disk is full; what was there before is untouched.
void save_checkpoint(const std::filesystem::path& out, const TrainState& state,
                     const GptConfig& gpt, const ParameterTable& parameters,
                     const Optimizer& optimizer, const std::string& tokenizer_json, int keep);

// The newest checkpoint's folder; nothing when there is none.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& out);
// Removes what a killed save left.
void remove_unfinished(const std::filesystem::path& out);

// Throws Error{data_corrupt} naming the file and what is wrong with it.
TrainState read_train_state(const std::filesystem::path& checkpoint);
std::string read_checkpoint_tokenizer(const std::filesystem::path& checkpoint);
void read_optimizer_state(const std::filesystem::path& checkpoint, const Optimizer& optimizer);

}  // namespace strata
