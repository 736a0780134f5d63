#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/json.h"
#include "report/line_chart.h"
#include "train/metrics.h"

namespace strata {

// The attention of every head to one text: weights [tokens, tokens] of a head in thousandths.
struct LiveAttention {
  struct Head {
    int layer = 0;
    int64_t head = 0;
    std::vector<int> weights;
  };
  int64_t step = 0;
  std::vector<std::string> tokens;
  std::vector<Head> heads;
};

// What the live page shows, and the events that bring a page up to date. Bounded: curves are
// thinned out to a few thousand points, of samples the newest stay.
class LiveState {
 public:
  static constexpr size_t kMostPoints = 2000;
  static constexpr size_t kMostSamples = 20;

  // `about`: what the run is, shown as it is ({"out": .., "parameters": ..}).
  explicit LiveState(OrderedJson about) : about_(std::move(about)) {}

  // Curves of an earlier run that this one goes on from.
  void take_history(const Metrics& metrics);

  // Each gives the event of what it added: {"kind": "step" | "sample" | "attention" | "end", ..}.
  OrderedJson add_step(const StepReport& report);
  OrderedJson add_sample(int64_t step, std::string text);
  OrderedJson set_attention(LiveAttention attention);
  OrderedJson end(std::string how);

  // Everything, as the first event of a page: {"kind": "state", "about", "curves": {name: [[step,
  // value]..]}, "report", "samples", "attention", "end"}.
  OrderedJson whole() const;

 private:
  // A curve of at most kMostPoints: when it is full every other point goes, and from then on only
  // every second, fourth.. one is taken.
  class Curve {
   public:
    void add(double step, double value);
    OrderedJson points() const;

   private:
    std::vector<std::pair<double, double>> points_;
    int64_t stride_ = 1;
    int64_t skipped_ = 0;
  };

  OrderedJson about_;
  OrderedJson report_ = nullptr;
  Curve loss_, validation_, learning_rate_, gradient_norm_, speed_;
  std::deque<OrderedJson> samples_;
  OrderedJson attention_ = nullptr;
  OrderedJson end_ = nullptr;
};

}  // namespace strata
