#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/aligned.h"
#include "base/cpu.h"
#include "base/error.h"

namespace strata {
namespace {

TEST(SplitRange, PartsCoverTheRangeAndDifferByOneGrain) {
  for (int64_t n : {0, 1, 7, 8, 9, 63, 64, 65, 1000}) {
    for (int64_t grain : {1, 8, 48}) {
      for (int parts : {1, 2, 3, 8}) {
        int64_t next = 0, least = n + 1, most = 0;
        for (int p = 0; p < parts; ++p) {
          const IndexRange r = split_range(n, grain, p, parts);
          if (r.empty()) {
            least = 0;
            continue;
          }
          EXPECT_EQ(r.begin, next);
          EXPECT_EQ(r.begin % grain, 0);
          next = r.end;
          least = std::min(least, (r.end - r.begin + grain - 1) / grain);
          most = std::max(most, (r.end - r.begin + grain - 1) / grain);
        }
        EXPECT_EQ(next, n) << n << " " << grain << " " << parts;
        EXPECT_LE(most - least, 1);
      }
    }
  }
}

class Pools : public testing::TestWithParam<int> {};

TEST_P(Pools, EveryIndexRunsOncePerCall) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.threads(), GetParam());
  std::vector<std::atomic<int>> counts(GetParam());
  const auto caller = std::this_thread::get_id();
  for (int call = 0; call < 500; ++call) {
    pool.run([&](int index) {
      if (index == 0) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
      }
      counts[index].fetch_add(1, std::memory_order_relaxed);
    });
    for (auto& count : counts) ASSERT_EQ(count.load(std::memory_order_relaxed), call + 1);
  }
}

TEST_P(Pools, LoopsCoverEachElementOnce) {
  ThreadPool pool(GetParam());
  for (int64_t n : {0, 1, 5, 64, 1001}) {
    std::vector<int> fixed(n), taken(n);
    pool.parallel_for(n, 8, [&](int64_t begin, int64_t end) {
      EXPECT_LT(begin, end);
      for (int64_t i = begin; i < end; ++i) ++fixed[i];
    });
    pool.parallel_for_dynamic(n, 8, [&](int64_t begin, int64_t end) {
      EXPECT_LT(begin, end);
      for (int64_t i = begin; i < end; ++i) ++taken[i];
    });
    EXPECT_EQ(fixed, std::vector<int>(n, 1));
    EXPECT_EQ(taken, std::vector<int>(n, 1));
  }
}

TEST_P(Pools, TheLowestThrowingIndexIsHeardAndThePoolGoesOn) {
  ThreadPool pool(GetParam());
  for (int call = 0; call < 20; ++call) {
    std::atomic<int> calls = 0;
    std::string heard;
    try {
      pool.run([&](int index) {
        ++calls;
        throw std::runtime_error("index " + std::to_string(index));
      });
    } catch (const std::runtime_error& error) {
      heard = error.what();
    }
    EXPECT_EQ(heard, "index 0");
    EXPECT_EQ(calls, GetParam());
  }
  std::atomic<int> calls = 0;
  pool.run([&](int) { ++calls; });
  EXPECT_EQ(calls, GetParam());
}

TEST_P(Pools, CallersTakeTurns) {
  ThreadPool pool(GetParam());
  std::atomic<int> inside = 0, total = 0;
  std::atomic<bool> overlapped = false;
  std::vector<std::thread> callers;
  callers.reserve(3);
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      for (int call = 0; call < 100; ++call) {
        pool.run([&](int index) {
          if (index == 0 && inside.fetch_add(1) != 0) overlapped = true;
          ++total;
          if (index == 0) inside.fetch_sub(1);
        });
      }
    });
  }
  for (auto& c : callers) c.join();
  EXPECT_FALSE(overlapped);
  EXPECT_EQ(total, 300 * GetParam());
}

// Workers asleep need microseconds to wake up; an empty share is done long before.
TEST(ThreadPool, TheCallerDoesWhatNobodyHasBegun) {
  ThreadPool pool(usable_threads() + 6);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> calls = 0, by_caller = 0;
  for (int call = 0; call < 200; ++call) {
    pool.run([&](int) {
      ++calls;
      if (std::this_thread::get_id() == caller) ++by_caller;
    });
  }
  EXPECT_EQ(calls, 200 * pool.threads());
  EXPECT_GT(by_caller, 200);  // its own, and some
}

INSTANTIATE_TEST_SUITE_P(Threads, Pools, testing::Values(1, 2, 3, 8));

double process_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Nobody burns a core while waiting: counted in CPU time, which other load does not change.
TEST(ThreadPool, WaitingCostsNoCpuTime) {
  for (int threads : {usable_threads(), usable_threads() + 6}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.spins(), threads <= usable_threads());
    const double before = process_cpu_seconds();
    for (int call = 0; call < 4; ++call) {
      pool.run([&](int index) {
        if (index == threads - 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      });
    }
    // 200 ms slept; spinning to the end would cost a core per waiting thread.
    EXPECT_LT(process_cpu_seconds() - before, 0.1) << threads << " threads";
  }
}

// CPU seconds of `calls` calls that share a millisecond or so of work among all threads.
double shared_work_seconds(int threads, int calls) {
  ThreadPool pool(threads);
  std::atomic<uint32_t> kept = 0;
  const double before = process_cpu_seconds();
  for (int call = 0; call < calls; ++call)
    pool.run([&](int index) {
      auto state = static_cast<uint32_t>(index);
      for (int i = 0; i < 1'000'000 / threads; ++i) state = state * 1664525u + 1013904223u;
      kept += state;
    });
  return process_cpu_seconds() - before;
}

// Threads that a machine has no cores for do not multiply the work; nor do pools that run at the
// same time, as those of several engines in one process.
TEST(ThreadPool, MoreThreadsThanCoresCostLittle) {
  const double alone = shared_work_seconds(1, 100);
  EXPECT_LT(shared_work_seconds(usable_threads() + 6, 100), 2 * alone);

  const double before = process_cpu_seconds();
  std::vector<std::thread> engines;
  for (int i = 0; i < 3; ++i)
    engines.emplace_back([] { shared_work_seconds(usable_threads(), 100); });
  for (std::thread& engine : engines) engine.join();
  EXPECT_LT(process_cpu_seconds() - before, 2 * 3 * alone);
}

TEST(ThreadPool, AtLeastOneThread) {
  ThreadPool pool(0);
  EXPECT_EQ(pool.threads(), 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose memory has no limit
// The address space ends before the stacks of so many threads; the process goes on.
TEST(ThreadPoolDeathTest, SaysThatTheSystemStartsNoMoreThreads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_little_memory = [] {
    rlimit memory{uint64_t{1} << 29, uint64_t{1} << 29};
    setrlimit(RLIMIT_AS, &memory);
    try {
      ThreadPool pool(1000);
    } catch (const Error& e) {
      std::fprintf(stderr, "%s", e.what());
      ThreadPool small(2);
      small.run([](int) {});
      std::exit(e.code() == ErrorCode::resource_exhausted ? 3 : 4);
    }
    std::exit(5);
  };
  EXPECT_EXIT(in_little_memory(), testing::ExitedWithCode(3), "starts no more threads.*--threads");
}
#endif

TEST(AlignedBuffer, StartsOnALineAndMoves) {
  for (size_t bytes : {size_t{1}, size_t{63}, size_t{65}, size_t{5} << 20}) {
    AlignedBuffer a(bytes, HugePages::advise);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
    EXPECT_EQ(a.size(), bytes);
    a.as<char>()[bytes - 1] = 1;
    const void* data = a.data();
    AlignedBuffer b = std::move(a);
    EXPECT_EQ(b.data(), data);
  }
  EXPECT_EQ(AlignedBuffer(0).data(), nullptr);
  EXPECT_THROW(AlignedBuffer(SIZE_MAX), Error);
}

}  // namespace
}  // namespace strata
