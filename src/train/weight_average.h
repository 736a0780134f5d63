#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "ops/context.h"
#include "train/parameters.h"

namespace strata {

// The exponential moving average of a table's trainable parameters, without the bias of its
// beginning (as Adam's moments are corrected): after t steps that left the weights p_1 .. p_t
//   average = (1 - d) / (1 - d^t) * sum over i of d^(t - i) p_i,
// which after one step is p_1 itself. Elementwise: the same bits for any number of threads.
class WeightAverage {
 public:
  // The table outlives the average. Throws Error{resource_exhausted} without memory.
  WeightAverage(const ParameterTable& parameters, double decay, const OpContext& context);

  // Takes in the weights that step number `step` (from 1) left.
  void add(int64_t step);
  // The table's weights become the average: what a checkpoint of one holds.
  void set_to_parameters();

  // While one lives, the table (and so the model) holds the averages, rounded copies included, and
  // the average what the table held. nullptr: nothing changes.
  class InUse {
   public:
    explicit InUse(WeightAverage* average) : average_(average) {
      if (average_ != nullptr) average_->exchange();
    }
    ~InUse() {
      if (average_ != nullptr) average_->exchange();
    }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    WeightAverage* average_;
  };

  size_t held_bytes() const { return memory_.size(); }

 private:
  struct Entry {
    const Parameter* parameter = nullptr;
    std::span<float> values;
  };
  void exchange();

  const ParameterTable& parameters_;
  double decay_;
  OpContext context_;
  AlignedBuffer memory_;
  std::vector<Entry> entries_;
};

}  // namespace strata
