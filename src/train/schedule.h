#pragma once

#include <cstdint>

namespace strata {

enum class ScheduleKind : uint8_t {
  cosine,    // half a cosine from the peak to the end value
  linear,    // a line from the peak to the end value
  constant,  // the peak
  wsd,       // warm-up, stable, decay: the peak, and a line to the end value in the last part
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double peak = 1e-3;
  double end = 1e-4;
  int64_t warmup = 0;        // steps of a line from peak / warmup to peak
  int64_t steps = 1;         // in all
  double decay_share = 0.2;  // wsd: of all steps
};

// The learning rate of step 0 .. steps - 1; the last step has `end`. Constant: `end` is not read.
double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace strata
