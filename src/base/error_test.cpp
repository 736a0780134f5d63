#include "base/error.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(Error, CarriesCodeAndFormattedMessage) {
  try {
    fail(ErrorCode::data_corrupt, "{}: {} bytes, wanted {}", "a.gguf", 3, 4);
    FAIL() << "fail() returned";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::data_corrupt);
    EXPECT_STREQ(e.what(), "a.gguf: 3 bytes, wanted 4");
    EXPECT_EQ(error_code_name(e.code()), "data_corrupt");
  }
}

#ifdef STRATA_ASSERT_ABORTS
TEST(Error, AssertionStopsTheProgram) { EXPECT_DEATH(STRATA_ASSERT(1 == 2), "1 == 2"); }
#else
TEST(Error, AssertionThrowsInternal) {
  try {
    STRATA_ASSERT(1 == 2);
    FAIL() << "STRATA_ASSERT passed";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::internal);
  }
}
#endif

}  // namespace
}  // namespace strata
