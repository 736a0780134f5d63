#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace strata {

namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

double percentile(std::span<const double> sorted, double share) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(
      std::clamp(rank - 1, 0.0, static_cast<double>(sorted.size() - 1)))];
}

Summary summarize(std::span<const double> values) {
  if (values.empty())
    fail(ErrorCode::invalid_argument, "summarize: no values, wanted at least one repeat");
  Summary summary;
  summary.median = median_of({values.begin(), values.end()});
  std::vector<double> distances;
  for (double v : values) distances.push_back(std::abs(v - summary.median));
  summary.deviation = median_of(std::move(distances));
  return summary;
}

}  // namespace strata
