#include "server/server.h"

#include <chrono>
#include <thread>

#include "server/api_error.h"
#include "server/server_state.h"

namespace strata::server {
namespace {

constexpr auto kFlushTime = std::chrono::seconds(2);

}  // namespace

Server::Server(ServerSettings settings)
    : state_(std::make_unique<ServerState>(std::move(settings))) {
  http_ = net::HttpServer::start(
      state_->settings.http,
      [state = state_.get()](std::shared_ptr<net::Exchange> exchange) {
        dispatch(*state, std::move(exchange));
      },
      [](int status, std::string_view message) { return error_body(status, message); });
  state_->http = http_.get();
}

Server::~Server() { http_->stop(); }

uint16_t Server::port() const { return http_->port(); }

void Server::set_models(std::vector<ServedModel> models) {
  state_->models.set(std::move(models));
  state_->ready = true;
}

void Server::drain() {
  using Clock = std::chrono::steady_clock;
  state_->draining = true;
  state_->models.drain(state_->settings.drain_timeout_seconds);
  http_->stop_accepting();
  // The last answers are written; connections close when they are out.
  const auto flushed = Clock::now() + kFlushTime;
  while (http_->open_connections() > 0 && Clock::now() < flushed)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace strata::server
