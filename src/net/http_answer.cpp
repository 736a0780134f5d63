#include "net/http_answer.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "net/io_loop.h"

namespace strata::net {

Answer::Answer(std::shared_ptr<IoLoop> loop, std::function<void()> wake)
    : loop_(std::move(loop)), wake_(std::move(wake)) {}

void Answer::notify(std::unique_lock<std::mutex> lock) {
  // Nobody will be told any more; what they hold (perhaps the exchange) is let go outside the lock.
  std::vector<std::function<void()>> dropped;
  if (finished_) dropped.swap(gone_callbacks_);
  const bool wake = !woken_ && !gone_;
  woken_ = woken_ || wake;
  lock.unlock();
  if (wake) loop_->post(wake_);
}

void Answer::respond(Response response) {
  std::unique_lock<std::mutex> lock(mutex_);
  STRATA_ASSERT(kind_ == Kind::none);
  kind_ = next_.kind = Kind::whole;
  next_.has_head = true;
  next_.head = std::move(response);
  next_.last = finished_ = true;
  notify(std::move(lock));
}

void Answer::begin_stream(int status, Headers headers) {
  std::unique_lock<std::mutex> lock(mutex_);
  STRATA_ASSERT(kind_ == Kind::none);
  kind_ = next_.kind = Kind::stream;
  next_.has_head = true;
  next_.head = {status, std::move(headers), {}};
  notify(std::move(lock));
}

void Answer::write(std::string bytes) {
  std::unique_lock<std::mutex> lock(mutex_);
  STRATA_ASSERT(kind_ == Kind::stream && !finished_);
  if (gone_ || bytes.empty()) return;
  if (next_.bytes.empty()) {
    next_.bytes = std::move(bytes);
  } else {
    next_.bytes += bytes;
  }
  notify(std::move(lock));
}

void Answer::end_stream() {
  std::unique_lock<std::mutex> lock(mutex_);
  STRATA_ASSERT(kind_ == Kind::stream && !finished_);
  next_.last = finished_ = true;
  notify(std::move(lock));
}

void Answer::abandon() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (finished_) return;
  next_.abandoned = finished_ = true;
  notify(std::move(lock));
}

size_t Answer::queued_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return gone_ ? 0 : next_.bytes.size() + next_.head.body.size() + in_flight_;
}

void Answer::on_client_gone(std::function<void()> callback) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) return;
    if (!gone_) {
      gone_callbacks_.push_back(std::move(callback));
      return;
    }
  }
  if (loop_->on_io_thread() || !loop_->post(callback)) callback();
}

bool Answer::client_gone() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return gone_;
}

Answer::Part Answer::take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  woken_ = false;
  Part part = std::move(next_);
  next_ = Part{};
  part.kind = kind_;
  in_flight_ += part.bytes.size() + part.head.body.size();
  return part;
}

void Answer::sent(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  in_flight_ -= bytes;
}

void Answer::client_left() {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (gone_) return;
    gone_ = true;
    next_ = Part{};
    callbacks.swap(gone_callbacks_);
  }
  for (const auto& callback : callbacks) {
    try {
      callback();
    } catch (const std::exception& e) {
      log_error("http: on_client_gone: {}", e.what());
    }
  }
}

}  // namespace strata::net
