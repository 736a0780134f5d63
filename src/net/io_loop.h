#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace strata::net {

// The io context of a server, shared with answers that may outlive it. Only http_*.cpp includes
// this: Asio is heavy.
class IoLoop : public std::enable_shared_from_this<IoLoop> {
 public:
  boost::asio::io_context& context() { return context_; }

  // Runs fn on the io thread. False, and fn dropped, once close() was called.
  template <typename F>
  bool post(F&& fn) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return false;
    boost::asio::post(context_, std::forward<F>(fn));
    return true;
  }
  void post_after(int delay_ms, std::function<void()> fn);

  // On the io thread: timers are dropped and nothing more is posted, so run() can return.
  void close();
  bool closed() const { return closed_; }  // io thread only
  bool on_io_thread() { return context_.get_executor().running_in_this_thread(); }

 private:
  struct Timer {
    boost::asio::steady_timer timer;
    std::function<void()> fn;
  };

  boost::asio::io_context context_{1};
  std::mutex mutex_;
  bool closed_ = false;
  std::list<Timer> timers_;  // io thread only
};

}  // namespace strata::net
