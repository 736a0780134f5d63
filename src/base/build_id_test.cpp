#include "base/build_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata {
namespace {

// That it is the program's own is checked end to end against `readelf -n`.
TEST(BuildId, IsHexadecimalAndStays) {
  EXPECT_THAT(build_id(), ::testing::MatchesRegex("([0-9a-f][0-9a-f])+"));
  EXPECT_EQ(build_id(), build_id());
}

}  // namespace
}  // namespace strata
