#include "train/live_page.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "net/sse.h"
#include "train/live_files.h"

namespace strata {
namespace {

constexpr auto kStepPause = std::chrono::milliseconds(100);
constexpr size_t kMostQueuedBytes = size_t{8} << 20;

const net::Headers& page_headers() {
  // Nothing but the page's own files, and events of this server only.
  static const net::Headers headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
       "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cache-Control", "no-cache"}};
  return headers;
}

net::Response text_response(int status, std::string_view type, std::string_view body) {
  net::Response response{status, page_headers(), std::string(body)};
  response.headers.emplace_back("Content-Type", type);
  return response;
}

std::string event_text(const OrderedJson& event) { return net::sse_data(to_json_text(event)); }

}  // namespace

LivePage::LivePage(uint16_t port, LiveState state) : state_(std::move(state)) {
  net::ServerOptions options;
  options.port = port;
  options.max_connections = 64;
  options.max_body_bytes = 0;
  server_ = net::HttpServer::start(
      options, [this](const std::shared_ptr<net::Exchange>& exchange) { handle(exchange); },
      [](int, std::string_view message) { return std::string(message) + "\n"; });
  // The handler reads it, perhaps already.
  const std::lock_guard lock(mutex_);
  port_ = server_->port();
}

LivePage::~LivePage() {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& watcher : watchers_) watcher->end_stream();
  }
  // Connections close when they have sent what they have.
  server_->stop_accepting();
  for (int i = 0; i < 100 && server_->open_connections() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  server_->stop();
}

std::string LivePage::url() const { return fmt::format("http://127.0.0.1:{}/", port_); }

bool LivePage::is_ours(std::string_view host) const {
  return host == fmt::format("127.0.0.1:{}", port_) || host == fmt::format("localhost:{}", port_);
}

void LivePage::handle(const std::shared_ptr<net::Exchange>& exchange) {
  const net::Request& request = exchange->request();
  const std::lock_guard lock(mutex_);
  if (!is_ours(request.header("Host")))
    return exchange->respond(text_response(403, "text/plain", "this page is for this machine\n"));
  if (request.method != "GET")
    return exchange->respond(text_response(405, "text/plain", "GET only\n"));
  if (request.path == "/events") {
    exchange->begin_stream(200, {{"Content-Type", "text/event-stream"},
                                 {"Cache-Control", "no-cache"},
                                 {"X-Content-Type-Options", "nosniff"}});
    exchange->write(event_text(state_.whole()));
    watchers_.push_back(exchange);
    return;
  }
  for (const LiveFile& file : live_files())
    if (file.path == request.path)
      return exchange->respond(text_response(200, file.content_type, file.content));
  exchange->respond(text_response(404, "text/plain", "no such file\n"));
}

void LivePage::send(const OrderedJson& event) {
  watchers_.erase(std::remove_if(watchers_.begin(), watchers_.end(),
                                 [](const auto& watcher) {
                                   return watcher->client_gone() ||
                                          watcher->queued_bytes() > kMostQueuedBytes;
                                 }),
                  watchers_.end());
  if (watchers_.empty()) return;
  const std::string text = event_text(event);
  for (const auto& watcher : watchers_) watcher->write(text);
}

void LivePage::add_step(const StepReport& report) {
  const std::lock_guard lock(mutex_);
  const OrderedJson event = state_.add_step(report);
  const auto now = std::chrono::steady_clock::now();
  const bool measured = event.contains("validation_loss");
  if (!measured && report.step != report.steps && now - last_step_ < kStepPause) return;
  last_step_ = now;
  send(event);
}

void LivePage::add_sample(int64_t step, std::string text) {
  const std::lock_guard lock(mutex_);
  send(state_.add_sample(step, std::move(text)));
}

void LivePage::set_attention(LiveAttention attention) {
  const std::lock_guard lock(mutex_);
  send(state_.set_attention(std::move(attention)));
}

void LivePage::end(std::string how) {
  const std::lock_guard lock(mutex_);
  send(state_.end(std::move(how)));
}

}  // namespace strata
