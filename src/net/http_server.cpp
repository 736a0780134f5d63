#include "net/http_server.h"

#include <sys/resource.h>
#include <csignal>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "net/http_connection.h"
#include "net/http_text.h"
#include "net/io_loop.h"

namespace strata::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) log_debug("http: the limit of open files stays");
}

asio::ssl::context make_tls(const ServerOptions& options) {
  asio::ssl::context tls(asio::ssl::context::tls_server);
  tls.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                  asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                  asio::ssl::context::no_tlsv1_1);
  // Buffers of idle connections are given back.
  SSL_CTX_set_mode(tls.native_handle(), SSL_MODE_RELEASE_BUFFERS);
  error_code ec;
  tls.use_certificate_chain_file(options.tls_cert_file, ec);
  if (ec) {
    fail(ErrorCode::invalid_argument, "serve: --tls-cert {}: {} (wanted a PEM certificate chain)",
         options.tls_cert_file, ec.message());
  }
  tls.use_private_key_file(options.tls_key_file, asio::ssl::context::pem, ec);
  if (ec) {
    fail(ErrorCode::invalid_argument,
         "serve: --tls-key {}: {} (wanted the certificate's private key as PEM)",
         options.tls_key_file, ec.message());
  }
  return tls;
}

class AsioServer : public HttpServer {
 public:
  AsioServer(const ServerOptions& options, Handler handler, ErrorBody error_body)
      : shared_(std::make_shared<ServerShared>()),
        loop_(std::make_shared<IoLoop>()),
        work_(loop_->context().get_executor()) {
    shared_->options = options;
    shared_->handler = std::move(handler);
    shared_->error_body = std::move(error_body);
    shared_->loop = loop_;
    if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
      fail(ErrorCode::invalid_argument, "serve: --tls-cert and --tls-key belong together");
    }
    if (!options.tls_cert_file.empty()) shared_->tls = make_tls(options);
    raise_file_limit();
    listen();
    for (tcp::acceptor& acceptor : acceptors_) {
      asio::co_spawn(loop_->context(), accept_loop(acceptor), asio::detached);
    }
    start_thread();
  }

  ~AsioServer() override { stop(); }

  uint16_t port() const override { return port_; }
  size_t open_connections() const override { return shared_->open; }

  void stop_accepting() override {
    loop_->post([this] {
      close_acceptors();
      shared_->draining = true;
      for (Connection* connection : shared_->connections) connection->drain();
    });
  }

  void stop() override {
    STRATA_ASSERT(!loop_->on_io_thread());
    if (!thread_.joinable()) return;
    loop_->post([this] {
      close_acceptors();
      // Closing may end connections, which leave the set.
      std::vector<std::shared_ptr<Connection>> open;
      for (Connection* connection : shared_->connections) {
        open.push_back(connection->shared_from_this());
      }
      for (const std::shared_ptr<Connection>& connection : open) connection->close();
      loop_->close();
      work_.reset();
    });
    thread_.join();
    // What the routes hold may hold this server.
    shared_->handler = nullptr;
  }

  void post(std::function<void()> fn) override {
    loop_->post([loop = loop_, fn = std::move(fn)] {
      if (!loop->closed()) fn();
    });
  }
  void post_after(int delay_ms, std::function<void()> fn) override {
    loop_->post_after(delay_ms, std::move(fn));
  }

 private:
  void start_thread() {
    // Signals are for the main thread.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([loop = loop_] {
      for (;;) {
        try {
          loop->context().run();
          return;
        } catch (const std::exception& e) {
          log_error("http: a function on the io thread failed: {}", e.what());
        }
      }
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void listen() {
    const ServerOptions& options = shared_->options;
    error_code ec;
    tcp::resolver resolver(loop_->context());
    const auto found =
        resolver.resolve(options.host, std::to_string(options.port),
                         tcp::resolver::passive | tcp::resolver::numeric_service, ec);
    if (ec) {
      fail(ErrorCode::invalid_argument, "serve: --host {}: {}", options.host, ec.message());
    }
    port_ = options.port;
    std::string reason;
    for (const auto& entry : found) {
      tcp::endpoint endpoint = entry.endpoint();
      endpoint.port(port_);
      tcp::acceptor acceptor(loop_->context());
      acceptor.open(endpoint.protocol(), ec);
      if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
      if (!ec && endpoint.address().is_v6()) {
        acceptor.set_option(asio::ip::v6_only(!endpoint.address().is_unspecified()), ec);
      }
      if (!ec) acceptor.bind(endpoint, ec);
      if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
      if (ec == asio::error::address_in_use) {
        fail(ErrorCode::invalid_argument,
             "serve: {} port {} is taken; choose another with --port (0: any free one)",
             options.host, endpoint.port());
      }
      // A name may have addresses this machine does not offer, such as ::1 without IPv6.
      if (ec) {
        reason = ec.message();
        continue;
      }
      acceptor.non_blocking(true, ec);
      port_ = acceptor.local_endpoint(ec).port();
      acceptors_.push_back(std::move(acceptor));
    }
    if (acceptors_.empty()) {
      fail(ErrorCode::invalid_argument, "serve: cannot listen on {} port {}: {}", options.host,
           options.port, reason);
    }
  }

  asio::awaitable<void> accept_loop(tcp::acceptor& acceptor) {
    constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
    asio::steady_timer pause(loop_->context());
    while (acceptor.is_open()) {
      auto [ec, socket] = co_await acceptor.async_accept(kTuple);
      if (!acceptor.is_open()) break;
      if (ec == asio::error::no_descriptors || ec == asio::error::no_memory ||
          ec == asio::error::no_buffer_space) {
        // Others must end first; trying again at once would only burn the core.
        log_warning("http: cannot take a connection: {}", ec.message());
        pause.expires_after(std::chrono::milliseconds(50));
        co_await pause.async_wait(kTuple);
        continue;
      }
      if (ec) continue;  // the client has left already
      if (shared_->connections.size() >= shared_->options.max_connections) {
        turn_away(socket);
        continue;
      }
      std::make_shared<Connection>(shared_, std::move(socket))->start();
    }
  }

  // Best effort, without waiting: one small write into an empty buffer.
  void turn_away(tcp::socket& socket) {
    if (!shared_->tls) {
      const std::string body = shared_->error_body(503, "too many connections");
      const std::string text =
          format_head(503, {{"Content-Type", "application/json"}, {"Retry-After", "1"}},
                      {.keep_alive = false, .content_length = body.size()}) +
          body;
      error_code ignored;
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(text), ignored);
      socket.shutdown(tcp::socket::shutdown_send, ignored);
    }
  }

  void close_acceptors() {
    error_code ignored;
    for (tcp::acceptor& acceptor : acceptors_) acceptor.close(ignored);
  }

  std::shared_ptr<ServerShared> shared_;
  std::shared_ptr<IoLoop> loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<tcp::acceptor> acceptors_;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<HttpServer> HttpServer::start(const ServerOptions& options, Handler handler,
                                              ErrorBody error_body) {
  return std::make_unique<AsioServer>(options, std::move(handler), std::move(error_body));
}

}  // namespace strata::net
