#include "server/worker_pool.h"

#include <exception>

#include "base/log.h"
#include "base/start_thread.h"

namespace strata::server {

// The other constructor has made it an object, so that a throw here runs the destructor.
WorkerPool::WorkerPool(int threads, size_t most_waiting) : WorkerPool(most_waiting) {
  for (int i = 0; i < threads; ++i) threads_.push_back(start_thread([this] { run(); }));
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::post(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || jobs_.size() >= most_waiting_) return false;
  jobs_.push_back(std::move(job));
  wake_.notify_one();
  return true;
}

void WorkerPool::run() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    try {
      job();
    } catch (const std::exception& e) {
      log_error("a request's work ended with: {}", e.what());
    }
  }
}

}  // namespace strata::server
