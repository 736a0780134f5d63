#include "bench/load.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "bench/timing.h"

namespace strata {
namespace {

// The first byte counts, not the end.
TEST(SecondsToFirstByte, TimesTheFirstByte) {
  EXPECT_GE(seconds_to_first_byte({"/bin/sh", "-c", "sleep 0.1; echo a"}), 0.1);
  const double begin = now_seconds();
  const double first = seconds_to_first_byte({"/bin/sh", "-c", "echo a; sleep 1; echo b"});
  const double whole = now_seconds() - begin;
  EXPECT_GT(first, 0);
  EXPECT_GE(whole - first, 0.5);
}

TEST(SecondsToFirstByte, TellsFailures) {
  EXPECT_THROW(seconds_to_first_byte({"/no/such/program"}), Error);
  EXPECT_THROW(seconds_to_first_byte({"/bin/sh", "-c", "echo a; exit 3"}), Error);
  EXPECT_THROW(seconds_to_first_byte({"/bin/sh", "-c", "echo a; kill -9 $$"}), Error);
  EXPECT_THROW(seconds_to_first_byte({"/bin/sh", "-c", "exit 0"}), Error);
}

TEST(OwnProgram, IsThisTest) { EXPECT_EQ(own_program().filename(), "strata_bench_test"); }

}  // namespace
}  // namespace strata
