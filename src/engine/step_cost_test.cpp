#include "engine/step_cost.h"

#include <gtest/gtest.h>

#include <random>

namespace strata {
namespace {

// A machine whose steps take a known time, with noise of some percent.
struct Machine {
  double base, row, pair;
  std::mt19937 random{5};
  double seconds(const StepWork& w) {
    const double noise = std::uniform_real_distribution<double>(0.95, 1.05)(random);
    return (base + row * w.rows + pair * w.pairs) * noise;
  }
};

StepWork streams(int count, int64_t depth) {
  StepWork work;
  for (int i = 0; i < count; ++i) work.add(1, depth);
  return work;
}

TEST(StepWork, CountsWhatARowAttendsTo) {
  StepWork work;
  work.add(3, 10);  // rows at 10, 11, 12 attend to 11, 12, 13 positions
  EXPECT_EQ(work.rows, 3);
  EXPECT_EQ(work.pairs, 36);
}

// Every eighth step of this machine takes 1.15 times what the others do.
TEST(StepCost, AChunkLeavesRoomForTheSlowestStep) {
  Machine m{0.010, 0.0012, 2e-7};
  StepCost cost;
  std::mt19937 random(9);
  for (int i = 0; i < 200; ++i) {
    StepWork work = streams(1, random() % 1000);
    const bool prompt = i % 2 == 0;
    if (prompt) work.add(16 + random() % 100, random() % 8000);
    cost.learn(work, prompt, m.seconds(work) * (i % 16 == 0 ? 1.15 : 1));
  }
  for (const int64_t position : {0, 1000, 8000}) {
    StepWork chunk = streams(1, 500);
    const int64_t rows = cost.rows_within(0.1, chunk, position, 1000);
    ASSERT_GT(rows, 4);
    chunk.add(rows, position);
    const double usual = m.base + m.row * chunk.rows + m.pair * chunk.pairs;
    // Somewhat more than the slowest step seen, and no more room than that.
    EXPECT_LE(1.3 * 1.15 * usual, 0.1 * 1.03) << position;
    EXPECT_GE(1.3 * 1.15 * usual, 0.1 * 0.9) << position;
  }
}

TEST(StepCost, LearnsAMachine) {
  for (const Machine& machine :
       {Machine{0.010, 0.0012, 2e-7}, Machine{0.2, 0.02, 0}, Machine{0, 0.001, 5e-6}}) {
    Machine m = machine;
    StepCost cost;
    std::mt19937 random(9);
    for (int i = 0; i < 200; ++i) {
      StepWork work = streams(1 + static_cast<int>(random() % 32), random() % 4000);
      const bool prompt = i % 2 == 0;
      if (prompt) work.add(16 + random() % 400, random() % 8000);
      cost.learn(work, prompt, m.seconds(work));
    }
    EXPECT_TRUE(cost.known());
    StepWork work = streams(8, 2000);
    work.add(200, 5000);
    const double want = m.base + m.row * work.rows + m.pair * work.pairs;
    EXPECT_NEAR(cost.predict(work), want, 0.05 * want);
    // Deeper chunks are smaller ones.
    const double target = 3 * (m.base + m.row * 100);
    const int64_t shallow = cost.rows_within(target, {}, 0, 10'000);
    const int64_t deep = cost.rows_within(target, {}, 30'000, 10'000);
    EXPECT_GT(shallow, 0);
    EXPECT_GE(shallow, deep);
    StepWork chunk;
    chunk.add(shallow, 0);
    EXPECT_LE(m.base + m.row * chunk.rows + m.pair * chunk.pairs, target * 1.06);
  }
}

TEST(StepCost, SamplesThatAreAllAlikeDoNoHarm) {
  StepCost cost;
  for (int i = 0; i < 100; ++i) {
    StepWork work = streams(4, 100);
    work.add(64, 0);
    cost.learn(work, true, 0.08);
  }
  StepWork work = streams(4, 100);
  work.add(64, 0);
  EXPECT_NEAR(cost.predict(work), 0.08, 0.004);
  EXPECT_GE(cost.rows_within(1e9, {}, 0, 512), 512);
  EXPECT_EQ(cost.rows_within(0, work, 0, 512), 0);
  cost.learn({}, false, 0);  // no time: not a measurement
  EXPECT_NEAR(cost.predict(work), 0.08, 0.004);
}

TEST(StepCost, ForgetsAnOldMachine) {
  StepCost cost;
  StepWork work;
  work.add(100, 0);
  for (int i = 0; i < 100; ++i) cost.learn(work, true, 0.1);
  for (int i = 0; i < 100; ++i) cost.learn(work, true, 0.3);
  EXPECT_NEAR(cost.predict(work), 0.3, 0.01);
}

}  // namespace
}  // namespace strata
