#include "base/thread_placement.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <vector>

namespace strata {
namespace {

// Moves the calling thread to `cpu` and allows it `allowed` again.
void go_to(int cpu, const cpu_set_t& allowed) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  ASSERT_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
  ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
}

class ThreadPlacementTest : public testing::Test {
 protected:
  void SetUp() override {
    if (sched_getaffinity(0, sizeof(allowed_), &allowed_) != 0) GTEST_SKIP();
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &allowed_)) cpus_.push_back(cpu);
    if (cpus_.size() < 2) GTEST_SKIP() << "this machine has one CPU to use";
  }
  void TearDown() override { sched_setaffinity(0, sizeof(allowed_), &allowed_); }

  cpu_set_t allowed_;
  std::vector<int> cpus_;
};

TEST_F(ThreadPlacementTest, ThreadsOnOneCpuPart) {
  ThreadPlacement placement(2);
  EXPECT_EQ(placement.cpu_of(1), -1);
  // Stays on the first CPU throughout, so that the other thread's place is certain.
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(cpus_[0], &first);
  ASSERT_EQ(sched_setaffinity(0, sizeof(first), &first), 0);
  placement.settle(0);
  EXPECT_EQ(placement.cpu_of(0), cpus_[0]);
  std::thread([&] {
    cpu_set_t after;
    sched_setaffinity(0, sizeof(first), &first);
    // Allowed nowhere else: stays.
    placement.settle(1);
    EXPECT_EQ(placement.cpu_of(1), cpus_[0]);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // moves are rare
    // The scheduler may take the thread away between its coming and settling; then again.
    for (int attempt = 0; attempt < 100 && placement.cpu_of(1) == cpus_[0]; ++attempt) {
      go_to(cpus_[0], allowed_);
      placement.settle(1);
    }
    EXPECT_NE(placement.cpu_of(1), cpus_[0]);
    ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&after, &allowed_)) << "the thread was pinned";
  }).join();
}

TEST_F(ThreadPlacementTest, ThreadZeroAndThreadsApartStay) {
  ThreadPlacement placement(2);
  go_to(cpus_[1], allowed_);
  placement.settle(0);
  placement.settle(0);
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&after, &allowed_));
}

}  // namespace
}  // namespace strata
