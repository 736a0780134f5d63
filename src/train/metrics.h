#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "ops/context.h"
#include "report/line_chart.h"
#include "train/parameters.h"
#include "train/record_file.h"

namespace strata {

// What is known after a step.
struct StepReport {
  int64_t step = 0;  // steps done
  int64_t steps = 0;
  double loss = 0;  // of the step's tokens, before the update
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  // where it was measured
  double learning_rate = 0;
  double gradient_norm = 0;
  int64_t tokens = 0;            // trained on so far
  double tokens_per_second = 0;  // of training, since this run began
  double seconds_left = 0;
};

// A run's record: OUT/metrics.jsonl, one object a line, and the curves drawn from it;
// OUT/norms.jsonl with the norms of each tensor. Training losses go in every kEvery steps,
// validation losses when they are measured.
class Metrics {
 public:
  static constexpr int64_t kEvery = 10;

  // Keeps the lines of steps up to `last_step` of an earlier run (0: none).
  Metrics(const std::filesystem::path& out, int64_t last_step);

  void add(const StepReport& report);
  // {"step", "tensors": {name: {"weight", "gradient"}}}: norms after the step's update, and of its
  // gradient before clipping; a frozen tensor has no gradient.
  void add_norms(int64_t step, const ParameterTable& parameters, const OpContext& context);
  // OUT/loss_curve.png.
  void draw(const std::string& title) const;

  const Line& training() const { return training_; }
  const Line& validation() const { return validation_; }

 private:
  void take(const Json& line);

  std::filesystem::path out_;
  Line training_{"training", {}, {}}, validation_{"validation", {}, {}};
  RecordFile file_;
  RecordFile norms_;
};

}  // namespace strata
