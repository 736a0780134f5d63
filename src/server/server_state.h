#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/fields.h"
#include "server/metrics.h"
#include "server/sampling_request.h"
#include "server/server.h"
#include "server/worker_pool.h"

namespace strata::server {

// What the handlers of all requests share.
struct ServerState {
  explicit ServerState(ServerSettings s);

  const ServerSettings settings;
  KeyRing keys, admin_keys;
  Metrics metrics;
  ModelSet models;
  std::atomic<bool> ready{false};  // models are loaded
  std::atomic<bool> draining{false};
  net::HttpServer* http = nullptr;
  WorkerPool workers;

  // False when an engine's loop has not turned for a minute (a long step takes seconds).
  bool alive();

 private:
  struct Pulse {
    std::weak_ptr<Engine> engine;
    uint64_t ticks = 0;
    std::chrono::steady_clock::time_point seen;
  };
  std::mutex pulse_mutex_;
  std::vector<Pulse> pulses_;
};

// One HTTP request on its way through the handlers.
struct Context {
  ServerState& state;
  std::shared_ptr<net::Exchange> exchange;
  net::Headers headers;  // of every answer: request id, CORS, ignored fields
  std::string request_id;
  Caller caller;
  std::chrono::steady_clock::time_point read = std::chrono::steady_clock::now();

  const net::Request& request() const { return exchange->request(); }
};

using Handler = void (*)(Context&);

struct Route {
  std::string_view path;
  std::string_view method;  // "GET" answers HEAD too
  Handler handler;
  bool on_worker;  // may parse large bodies
  bool needs_key;
};

// Every route of the API; `models_with_id` style prefixes end in '/'.
const std::vector<Route>& routes();

// Takes one request from the HTTP server: method, path, key, body headers, then the handler.
void dispatch(ServerState& state, std::shared_ptr<net::Exchange> exchange);

// ---- For handlers
// --------------------------------------------------------------------------------

void answer(Context& context, int status, std::string_view content_type, std::string body);
// The body as JSON, checked against `table`; ignored fields are named in the answer's headers.
RequestFields read_body(Context& context, std::span<const FieldSpec> table);
// Throws ApiError 503 while the models are loading or the server is shutting down.
void require_models(const ServerState& state);
// The model a body names; the first one if it names none. Throws ApiError 404, or 503 while
// loading.
ServedModel find_model(ServerState& state, const std::optional<std::string>& name);

}  // namespace strata::server
