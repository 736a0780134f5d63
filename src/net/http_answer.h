#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/http_server.h"

namespace strata::net {

class IoLoop;

// The answer to one request, between its maker (any thread) and the connection that sends it (io
// thread). Outlives either.
class Answer {
 public:
  // `wake` tells the connection, on the io thread, that there is something new.
  Answer(std::shared_ptr<IoLoop> loop, std::function<void()> wake);

  // The maker's side; what Exchange promises.
  void respond(Response response);
  void begin_stream(int status, Headers headers);
  void write(std::string bytes);
  void end_stream();
  void abandon();  // the last pointer to the exchange is gone
  size_t queued_bytes() const;
  void on_client_gone(std::function<void()> callback);
  bool client_gone() const;

  // The connection's side.
  enum class Kind { none, whole, stream };
  struct Part {
    Kind kind = Kind::none;
    bool has_head = false;  // status and headers are in `head`, and the whole body if kind is whole
    Response head;
    std::string bytes;  // of the stream, written since the last part
    bool last = false;
    bool abandoned = false;  // answer 500 if kind is none, else close without an end
  };
  Part take();
  void sent(size_t bytes);  // the operating system has taken so many of those taken
  void client_left();

 private:
  void notify(std::unique_lock<std::mutex> lock);

  const std::shared_ptr<IoLoop> loop_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;
  Part next_;
  Kind kind_ = Kind::none;
  bool finished_ = false;  // respond() or end_stream() was called, or abandoned
  bool gone_ = false;
  bool woken_ = false;    // a wake-up is on its way
  size_t in_flight_ = 0;  // taken and not sent
  std::vector<std::function<void()>> gone_callbacks_;
};

}  // namespace strata::net
