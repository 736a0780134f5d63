#pragma once

#include <span>

namespace strata {

// Repeats of one measurement. A disturbed machine makes some of them far too slow; median and
// median absolute deviation bear with up to half of them.
struct Summary {
  double median = 0;
  double deviation = 0;  // median of |x - median|, in the unit of x; 0 for a single value
};

// Of an even number of values the median is the mean of the middle two. Throws
// Error{invalid_argument} for none.
Summary summarize(std::span<const double> values);

// The smallest value that at least `share` (0..1) of the sorted values do not exceed; NaN for none.
double percentile(std::span<const double> sorted, double share);

}  // namespace strata
