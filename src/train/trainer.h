#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "text/tokenizer.h"
#include "train/checkpoint.h"
#include "train/metrics.h"
#include "train/token_data.h"
#include "train/train_pass.h"

namespace strata {

struct TrainerOptions {
  TrainConfig config;
  std::filesystem::path out;  // empty: nothing is written (a dry run)
  bool resume = false;        // from the newest checkpoint of `out`
  double max_minutes = 0;     // of this run; 0: no limit
  int keep = 1;               // checkpoints
  int threads = 1;
  // Asked between steps; true ends the run after a checkpoint.
  std::function<bool()> stop;
  // After each step, and with a validation loss after each validation.
  std::function<void(const StepReport&)> on_step;
  // A text of the model as it is, with the weights that passes compute with; empty: no samples.
  std::function<std::string(const Model&)> sample;
  // At each validation: pictures of the model, likewise.
  std::function<void(const Model&)> draw;
};

enum class TrainEnd : uint8_t { done, no_improvement, time_is_up, stopped };

// What a run of steps costs, before it is run.
struct TrainCost {
  int64_t parameters = 0;
  int64_t trainable = 0;
  int64_t tokens_per_step = 0;
  // By 6 N: all parameters but tables of positions, forward and backward, without attention.
  double flops_per_token = 0;
  int64_t parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0, activation_bytes = 0;
  int64_t average_bytes = 0;
  int64_t rounded_bytes = 0;  // copies in bf16 that products read
  int64_t total_bytes() const {
    return parameter_bytes + gradient_bytes + optimizer_bytes + activation_bytes + average_bytes +
           rounded_bytes;
  }
};

// Trains one GPT from nothing, or further. What it computes is a function of configuration, data
// and instruction-set level: neither threads nor interruptions change a bit.
class Trainer {
 public:
  // Throws Error{data_corrupt} for a checkpoint that is broken or of another tokenizer,
  // invalid_argument where `out` has a run and resume is not asked for, or has none and it is.
  Trainer(const TrainerOptions& options, TokenData data, const Tokenizer& tokenizer,
          std::string tokenizer_json);

  TrainCost cost();
  // Runs to the last step, or until nothing improves, time is up or somebody stops it; writes a
  // checkpoint at the end of each. With early stopping OUT's model is the best one then. Throws
  // Error{internal} when loss or gradient are not finite: step and tensor are named, the last good
  // checkpoint stays.
  TrainEnd run();
  // One step; no reports, no files. Returns the mean loss.
  double step_once();

  // With averaged weights, if there are any: mean loss over all validation tokens but the first, in
  // windows that do not overlap.
  double validate();
  // nanoGPT's estimator: the mean over random windows of the validation text, as many as there are
  // whole ones.
  double validate_random_windows();

  const TrainState& state() const { return state_; }
  const Model& model() const { return *model_; }
  const ParameterTable& parameters() const { return *parameters_; }
  const Metrics* metrics() const { return metrics_.get(); }  // nullptr where nothing is written

 private:
  struct StepResult {
    double loss = 0;
    double gradient_norm = 0;
    double learning_rate = 0;
  };
  StepResult step();
  [[noreturn]] void fail_not_finite(double loss) const;
  double mean_loss(const std::function<bool(TokenBatch&)>& next);
  void report_and_save(const StepResult& result, double seconds, int64_t steps_run);
  // Whether the loss is the lowest so far.
  bool take_validation(double loss);
  bool nothing_improves() const;
  void publish_best();
  void save();

  TrainerOptions options_;
  TokenData data_;
  std::string tokenizer_json_;
  TrainState state_;
  GptConfig gpt_;
  ThreadPool pool_;
  OpContext context_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ParameterTable> parameters_;
  std::unique_ptr<TrainPass> pass_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightAverage> average_;  // nullptr: none
  std::unique_ptr<Metrics> metrics_;
  TokenBatch batch_;
};

}  // namespace strata
