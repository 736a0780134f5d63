#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"

namespace strata::server {

// How an API request ended, as strata_requests_total counts it: once each, whatever n is.
enum class Outcome : uint8_t {
  completed,   // ended by itself (stop or length)
  aborted,     // the client went away
  timed_out,   // its own time-out
  rejected,    // 4xx: never ran
  overloaded,  // 429 or 503: queue, rate, draining
  failed,      // 500
};

// The numbers of /metrics. Methods may be called from any thread and never throw into the caller:
// a metric must not end a request.
class Metrics {
 public:
  Metrics(const std::string& isa, const std::string& version);
  ~Metrics();
  void count_request(Outcome outcome) noexcept;
  void count_tokens(int64_t in, int64_t out) noexcept;
  void observe_queue(double seconds) noexcept;
  void observe_ttft(double seconds) noexcept;
  void observe_inter_token(double seconds) noexcept;
  void observe_refusal(double seconds) noexcept;
  // Prometheus text format 0.0.4, with the gauges of `stats` (all engines together).
  std::string text(const EngineStats& stats);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::server
