#include "net/io_loop.h"

#include <chrono>

namespace strata::net {

void IoLoop::post_after(int delay_ms, std::function<void()> fn) {
  const auto due = std::chrono::steady_clock::now() + std::chrono::milliseconds(delay_ms);
  post([self = shared_from_this(), due, fn = std::move(fn)]() mutable {
    if (self->closed_) return;
    const auto it = self->timers_.insert(
        self->timers_.end(), {boost::asio::steady_timer(self->context_, due), std::move(fn)});
    it->timer.async_wait([self, it](const boost::system::error_code& ec) {
      if (ec || self->closed_) return;
      const std::function<void()> due_fn = std::move(it->fn);
      self->timers_.erase(it);
      due_fn();
    });
  });
}

void IoLoop::close() {
  std::list<Timer> dropped;  // outlives the lock: what the functions hold may post when destroyed
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  dropped.swap(timers_);
}

}  // namespace strata::net
