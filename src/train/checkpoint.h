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
#include "train/weight_average.h"

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
  // With early stopping: the lowest validation loss, where it was, and the validations since.
  double best_loss = std::numeric_limits<double>::quiet_NaN();
  int64_t best_step = 0;
  int64_t validations_since_best = 0;
};

// A run's folder OUT is a Hugging Face folder of the newest checkpoint (its files are links into
// it), plus
//   OUT/trainer/step-00000500/   config.json, model.safetensors, tokenizer.json: the same folder
//                                optimizer.safetensors, state.json
//                                with averaged weights, which model.safetensors then has:
//                                training_weights.safetensors, what training goes on from
//   OUT/metrics.jsonl, OUT/norms.jsonl, OUT/loss_curve.png, OUT/attention_viz.png, OUT/samples.txt
// A checkpoint is written under another name and renamed when whole: one that has its name is
// complete, whenever the process or the disk ended. Older ones than the newest `keep` are removed.

struct CheckpointContent {
  const TrainState& state;
  const GptConfig& gpt;
  const ParameterTable& parameters;
  const Optimizer& optimizer;
  WeightAverage* average = nullptr;  // nullptr: none
  const std::string& tokenizer_json;
};
// With early stopping the best checkpoint stays, however old. Throws Error{resource_exhausted} when
// the disk is full; what was there before is untouched.
void save_checkpoint(const std::filesystem::path& out, const CheckpointContent& content, int keep);
// Makes OUT's model the one of that step's checkpoint, which exists.
void publish_checkpoint(const std::filesystem::path& out, int64_t step);

// Makes the run's folder where there is none, and removes what a killed save left. The checkpoint
// to go on from; nothing for a run that begins. Throws Error{invalid_argument} when the folder
// cannot be made, has a run already and `resume` is false, or has none and it is true.
std::optional<std::filesystem::path> open_run_folder(const std::filesystem::path& out, bool resume);

// The newest checkpoint's folder; nothing when there is none.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& out);
// Throws Error{data_corrupt} naming the file and what is wrong with it.
TrainState read_train_state(const std::filesystem::path& checkpoint);
std::string read_checkpoint_tokenizer(const std::filesystem::path& checkpoint);
void read_optimizer_state(const std::filesystem::path& checkpoint, const Optimizer& optimizer);
// Weights into the masters, and the average where there is one.
void read_weights(const std::filesystem::path& checkpoint, const ParameterTable& parameters,
                  WeightAverage* average);

}  // namespace strata
