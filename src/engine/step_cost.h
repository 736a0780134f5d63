#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace strata {

// What a step does, as far as its time depends on it.
struct StepWork {
  double rows = 0;
  double pairs = 0;  // rows times the positions each of them attends to

  void add(int64_t row_count, int64_t first_position) {
    const auto count = static_cast<double>(row_count);
    rows += count;
    pairs += count * (static_cast<double>(first_position) + (count + 1) / 2);
  }
};

// Predicts the time of a step as base + row * rows + pair * pairs, from the last steps measured:
// some with prompt rows and some without, so that neither kind is forgotten while the other runs.
// The three coefficients minimise the squares of the relative errors; negative ones count as 0.
class StepCost {
 public:
  void learn(const StepWork& work, bool reads_prompt, double seconds);
  // Whether steps of both kinds were seen often enough to predict anything.
  bool known() const { return prompt_steps_.seen >= kLeastSteps; }
  double predict(const StepWork& work) const;
  // The most rows, up to `most`, that a sequence at `position` may add to `work` such that the step
  // takes at most `seconds`, also if it is a little slower beside its prediction than the slowest
  // of the last steps with prompt rows (kBeyondSlowest times, kMostSlow at most); 0: none.
  int64_t rows_within(double seconds, const StepWork& work, int64_t position, int64_t most) const;

 private:
  static constexpr size_t kSteps = 64;
  static constexpr size_t kLeastSteps = 4;
  static constexpr double kBeyondSlowest = 1.3;  // and its tokens have to reach their clients
  static constexpr double kMostSlow = 1.6;
  struct Sample {
    StepWork work;
    double seconds = 0;
  };
  struct Ring {
    std::array<Sample, kSteps> samples;
    size_t seen = 0;
  };
  void fit();
  double slowest() const;

  Ring prompt_steps_, decode_steps_;
  std::array<double, 3> coefficients_{};  // base, row, pair
  double slowest_ = 1;                    // time of a step over its prediction
};

}  // namespace strata
