#pragma once

#include <atomic>
#include <chrono>
#include <vector>

namespace strata {

// Keeps the threads of a pool from sharing a CPU while another one they may use is free of them.
// The scheduler mends that by itself, but only after milliseconds in which a pool that waits for
// its slowest thread runs at half its speed. No thread is pinned: one that finds itself beside a
// thread of a lower index moves to another CPU, with the affinity mask it had before.
class ThreadPlacement {
 public:
  explicit ThreadPlacement(int threads) : places_(static_cast<size_t>(threads)) {}

  // Called by thread `index` before its share of some work; a few nanoseconds where all is well.
  // Thread 0 must have called before the others do: it stays where it is.
  void settle(int index) noexcept;

  // Where thread `index` was when it last settled; -1: it never did.
  int cpu_of(int index) const noexcept {
    return places_[static_cast<size_t>(index)].cpu.load(std::memory_order_relaxed);
  }

 private:
  bool taken(int cpu, int others) const noexcept;
  void move(int index) noexcept;

  struct alignas(64) Place {  // a line of its own, written only when the thread has moved
    std::atomic<int> cpu{-1};
    std::chrono::steady_clock::time_point moved{};
  };
  std::vector<Place> places_;
};

}  // namespace strata
