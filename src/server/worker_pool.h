#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace strata::server {

// Threads for work that must not hold up the io thread: parsing bodies, rendering, tokenizing.
class WorkerPool {
 public:
  // Throws Error{resource_exhausted} when the system starts no more threads.
  WorkerPool(int threads, size_t most_waiting);
  ~WorkerPool();  // drops what waits, joins
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  [[nodiscard]] bool post(std::function<void()> job);  // false: too much waits already

 private:
  explicit WorkerPool(size_t most_waiting) : most_waiting_(most_waiting) {}  // no threads yet
  void run();

  const size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace strata::server
