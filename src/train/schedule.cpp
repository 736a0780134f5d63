#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace strata {

double learning_rate(const Schedule& s, int64_t step) {
  if (step < s.warmup)
    return s.peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  if (s.kind == ScheduleKind::constant) return s.peak;
  int64_t first = s.warmup;
  if (s.kind == ScheduleKind::wsd)
    first = std::max(
        first,
        s.steps - static_cast<int64_t>(std::llround(s.decay_share * static_cast<double>(s.steps))));
  if (step < first) return s.peak;
  const auto length = static_cast<double>(std::max<int64_t>(s.steps - 1 - first, 1));
  const double share = std::min(1.0, static_cast<double>(step - first) / length);
  const double kept =
      s.kind == ScheduleKind::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * share)) : 1 - share;
  return s.end + (s.peak - s.end) * kept;
}

}  // namespace strata
