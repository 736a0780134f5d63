#include "engine/step_log.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/allocation_count_for_test.h"

namespace strata {
namespace {

using Part = StepRecord::Part;

TEST(StepLog, KeepsTheLastSteps) {
  StepLog log;
  EXPECT_TRUE(log.since(0, 10).empty());
  for (int i = 1; i <= 5000; ++i) {
    const std::vector<Part> parts(static_cast<size_t>(i % 3),
                                  {static_cast<uint64_t>(i), 0, i, StepRecord::Kind::token});
    StepRecord record;
    record.held_bytes = i;
    log.add(record, parts);
  }
  EXPECT_EQ(log.last(), 5000u);
  const std::vector<LoggedStep> all = log.since(0, 1'000'000);
  ASSERT_EQ(all.size(), StepLog::kSteps);
  for (const LoggedStep& r : all) {
    EXPECT_EQ(r.record.held_bytes, static_cast<int64_t>(r.record.number));
    ASSERT_EQ(r.parts.size(), r.record.number % 3);
    for (const Part& p : r.parts) EXPECT_EQ(p.request, r.record.number);
  }
  EXPECT_EQ(all.back().record.number, 5000u);
  EXPECT_EQ(log.since(4990, 4).front().record.number, 4991u);
  EXPECT_EQ(log.since(4990, 4).size(), 4u);
  EXPECT_TRUE(log.since(5000, 4).empty());
  EXPECT_TRUE(log.since(9'999'999, 4).empty());
}

TEST(StepLog, StepsWhosePartsAreGoneAreLeftOut) {
  StepLog log;
  const std::vector<Part> many(100);
  for (int i = 0; i < 1000; ++i) log.add({}, many);
  const std::vector<LoggedStep> all = log.since(0, 1'000'000);
  EXPECT_EQ(all.size(), StepLog::kParts / 100);
  EXPECT_EQ(all.back().record.number, 1000u);
  for (const LoggedStep& r : all) EXPECT_EQ(r.parts.size(), 100u);
}

TEST(StepLog, AddingAllocatesNothing) {
  StepLog log;
  const std::vector<Part> parts(64);
  const int64_t before = allocation_count();
  for (int i = 0; i < 10'000; ++i) log.add({}, parts);
  EXPECT_EQ(allocation_count() - before, 0);
}

}  // namespace
}  // namespace strata
