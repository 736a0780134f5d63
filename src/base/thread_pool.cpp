#include "base/thread_pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "base/cpu.h"
#include "base/error.h"
#include "base/start_thread.h"

namespace strata {
namespace {

// Longer than the gap between two operations of a decode step, shorter than anyone would notice on
// an idle machine.
constexpr std::chrono::microseconds kSpin{40};

thread_local const ThreadPool* working_for = nullptr;

// Returns true as soon as done(), false after kSpin. Without sched_yield: beside other programs
// each one gives away a whole round of their time slices (milliseconds, some hundred times a
// token), while a thread that sleeps on a futex is woken ahead of them.
template <typename Done>
bool spin_until(Done done) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      __builtin_ia32_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return done();
}

// Signals go to the threads that expect them, so workers start with all of them blocked.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

IndexRange split_range(int64_t n, int64_t grain, int part, int parts) {
  const int64_t grains = (n + grain - 1) / grain;
  // The first grains % parts parts take one more.
  const int64_t each = grains / parts, more = grains % parts;
  const int64_t first = part * each + std::min<int64_t>(part, more);
  const int64_t last = first + each + (part < more ? 1 : 0);
  return {std::min(n, first * grain), std::min(n, last * grain)};
}

ThreadPool::ThreadPool(int threads)
    : spins_(threads <= usable_threads()),
      placement_(std::max(threads, 1)),
      errors_(std::max(threads, 1)),
      claimed_(std::max(threads, 1)) {
  const BlockedSignals blocked;
  try {
    for (int i = 1; i < this->threads(); ++i)
      workers_.push_back(start_thread([this, i] { work(i); }));
  } catch (...) {
    end_workers();
    throw;
  }
}

ThreadPool::~ThreadPool() { end_workers(); }

void ThreadPool::end_workers() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// Takes a share of a call, once: whoever gets it runs it, and the call does not end before that, so
// job_ is this call's. A worker that is late finds its share taken and does not touch job_.
bool ThreadPool::claim(int index, uint32_t generation) {
  uint32_t before = generation - 1;
  return claimed_[index].compare_exchange_strong(before, generation, std::memory_order_acq_rel);
}

void ThreadPool::call(int index) noexcept {
  const ThreadPool* outer = working_for;
  working_for = this;
  try {
    (*job_)(index);
  } catch (...) {
    errors_[index] = std::current_exception();
  }
  working_for = outer;
  if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
}

void ThreadPool::work(int index) {
  pthread_setname_np(pthread_self(), "strata-worker");
  uint32_t seen = 0;
  for (;;) {
    const auto called = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    if (!spins_ || !spin_until(called)) generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!claim(index, seen)) continue;
    if (spins_) placement_.settle(index);
    call(index);
  }
}

void ThreadPool::run(FunctionRef<void(int)> fn) {
  STRATA_ASSERT(working_for != this);
  const std::lock_guard lock(turn_);
  job_ = &fn;
  running_.store(threads(), std::memory_order_relaxed);
  if (workers_.empty()) {
    call(0);
  } else {
    if (spins_) placement_.settle(0);
    const uint32_t generation = generation_.fetch_add(1, std::memory_order_release) + 1;
    generation_.notify_all();
    for (int index = 0; index < threads(); ++index)
      if (claim(index, generation)) call(index);
    const auto done = [&] { return running_.load(std::memory_order_acquire) == 0; };
    if (!spins_ || !spin_until(done)) {
      for (int left = running_.load(std::memory_order_acquire); left != 0;
           left = running_.load(std::memory_order_acquire))
        running_.wait(left, std::memory_order_acquire);
    }
  }
  std::exception_ptr first;
  for (std::exception_ptr& error : errors_) {
    if (error && !first) first = error;
    error = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

void ThreadPool::parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> fn) {
  STRATA_ASSERT(grain > 0 && working_for != this);
  if (n <= 0) return;
  if (n <= grain || threads() == 1) return fn(0, n);
  run([&](int index) {
    const IndexRange range = split_range(n, grain, index, threads());
    if (!range.empty()) fn(range.begin, range.end);
  });
}

void ThreadPool::parallel_for_dynamic(int64_t n, int64_t grain,
                                      FunctionRef<void(int64_t, int64_t)> fn) {
  STRATA_ASSERT(grain > 0 && working_for != this);
  if (n <= 0) return;
  if (n <= grain || threads() == 1) return fn(0, n);
  std::atomic<int64_t> next = 0;
  run([&](int) {
    for (;;) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= n) return;
      fn(begin, std::min(n, begin + grain));
    }
  });
}

}  // namespace strata
