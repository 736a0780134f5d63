#include "base/process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace strata {
namespace {

TEST(Process, CpuTimeGrowsWithWork) {
  const double before = process_cpu_seconds();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  volatile double sum = 0;
  while (process_cpu_seconds() < before + 0.02 && std::chrono::steady_clock::now() < end)
    sum = sum + 1;
  EXPECT_GE(process_cpu_seconds(), before + 0.02);
}

TEST(Process, MemoryThatIsWrittenIsResident) {
  const int64_t before = resident_bytes();
  EXPECT_GT(before, 1 << 20);
  const std::vector<char> written(64 << 20, 1);
  EXPECT_GE(resident_bytes() - before, 60 << 20);
  EXPECT_EQ(written[12345], 1);
}

}  // namespace
}  // namespace strata
