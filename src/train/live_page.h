#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/http_server.h"
#include "train/live_state.h"

namespace strata {

// The page of a run while it trains, for browsers on this machine: GET / and its files, and GET
// /events, server-sent events that begin with the whole state. Requests whose Host is not this
// machine's are refused, so that a page from elsewhere cannot reach it by a name of its own.
//
// The training thread adds, the io thread serves; nothing a browser does makes training wait. A
// browser that does not read for long is dropped, and gets the whole state when it comes back.
class LivePage {
 public:
  // Listens on 127.0.0.1; port 0: any free one. Throws Error{invalid_argument} when it is taken.
  LivePage(uint16_t port, LiveState state);
  // Gives browsers a moment to take what was said last.
  ~LivePage();
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;

  std::string url() const;

  // Steps go out at most ten times a second; one that is left out there is in the curves of whoever
  // comes later.
  void add_step(const StepReport& report);
  void add_sample(int64_t step, std::string text);
  void set_attention(LiveAttention attention);
  void end(std::string how);

 private:
  void handle(const std::shared_ptr<net::Exchange>& exchange);
  bool is_ours(std::string_view host) const;
  void send(const OrderedJson& event);  // mutex_ is held

  std::mutex mutex_;
  LiveState state_;
  std::vector<std::shared_ptr<net::Exchange>> watchers_;
  std::chrono::steady_clock::time_point last_step_;
  uint16_t port_ = 0;
  std::unique_ptr<net::HttpServer> server_;  // last: stops before the rest goes
};

}  // namespace strata
