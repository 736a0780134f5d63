#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace strata {
namespace {

Summary of(std::vector<double> values) { return summarize(values); }

// By hand: distances to the median 3 are 2 1 0 1 97, sorted 0 1 1 2 97.
TEST(Summary, MedianAndMedianAbsoluteDeviation) {
  const Summary s = of({4, 1, 100, 2, 3});
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.deviation, 1);
}

// Middle two: 2 and 4; distances 2 1 1 7, sorted 1 1 2 7, middle two 1 and 2.
TEST(Summary, AnEvenNumberTakesTheMeanOfTheMiddleTwo) {
  const Summary s = of({10, 1, 4, 2});
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.deviation, 1.5);
}

TEST(Summary, OneValueHasNoDeviation) {
  const Summary s = of({-7.5});
  EXPECT_EQ(s.median, -7.5);
  EXPECT_EQ(s.deviation, 0);
}

TEST(Summary, NoValuesAreRefused) { EXPECT_THROW(of({}), Error); }

}  // namespace
}  // namespace strata
