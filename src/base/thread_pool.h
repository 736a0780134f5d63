#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/thread_placement.h"

namespace strata {

struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;
  bool empty() const { return begin >= end; }
};

// Part `part` of `parts` of [0, n), cut only at multiples of grain (the last grain may be short);
// the parts differ by at most one grain and depend on nothing but the arguments.
IndexRange split_range(int64_t n, int64_t grain, int part, int parts);

// Threads that live as long as the pool and start work within microseconds: after a call they look
// out for the next one for a few tens of microseconds, then sleep. A pool of more threads than the
// process may use (usable_threads()) sleeps at once, so that nobody spins on a core another needs;
// the threads of any other pool keep to different CPUs (ThreadPlacement).
//
// A call never waits for a worker that has not begun: the caller does such a share itself. On a
// machine that is busy with other work, or with more threads than cores, a call so costs its work
// and not the scheduler's delays.
//
// Calls from several threads take turns. Calling a pool from its own work is our fault (asserted).
// A share may run on any thread: results depend on its index alone.
class ThreadPool {
 public:
  // `threads`: at least 1, the caller included. Throws Error{resource_exhausted} when the system
  // starts no more.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(errors_.size()); }
  bool spins() const { return spins_; }
  // Calls that went to several threads so far, modulo 2^32; each ended with all of them waiting for
  // the last.
  uint32_t barriers() const { return generation_.load(std::memory_order_relaxed); }

  // Calls fn(index) once for every index in [0, threads()), 0 on the calling thread, the others
  // where there is time for them, and returns when all are done. What a call throws is thrown here,
  // the lowest index first; the others complete.
  void run(FunctionRef<void(int)> fn);

  // Calls fn(begin, end) on the parts of [0, n) given by split_range. fn is not called for an empty
  // part, and on the calling thread alone, without a turn, where there is one part.
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> fn);

  // Calls fn(begin, end) on pieces of `grain`, each taken by whichever thread is free: for work
  // whose pieces differ in cost. On the calling thread alone where there is one piece.
  void parallel_for_dynamic(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> fn);

 private:
  void end_workers();
  void work(int index);
  bool claim(int index, uint32_t generation);
  void call(int index) noexcept;

  const bool spins_;
  ThreadPlacement placement_;
  std::mutex turn_;
  std::vector<std::exception_ptr> errors_;  // by index
  // By index: the last call in which somebody took that share. At a call's end all are equal.
  std::vector<std::atomic<uint32_t>> claimed_;
  const FunctionRef<void(int)>* job_ = nullptr;
  // On lines of their own: workers watch one while the caller watches the other.
  alignas(64) std::atomic<uint32_t> generation_ = 0;  // counts calls
  alignas(64) std::atomic<int> running_ = 0;          // shares not yet done in this call
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace strata
