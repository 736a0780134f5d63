#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::net {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Value of the first header of that name in any case; "" if absent.
std::string_view find_header(const Headers& headers, std::string_view name);

struct Request {
  std::string method;    // "GET"; HEAD comes as GET too, and its answer's body is not sent
  bool is_head = false;  // for logs
  std::string path;      // percent-decoded, without the query
  std::string query;     // as sent
  Headers headers;       // names as sent
  std::string body;
  std::string peer;  // "127.0.0.1:40112"
  // First header of that name in any case; "" if absent.
  std::string_view header(std::string_view name) const;
  bool has_header(std::string_view name) const;
};

struct Response {
  int status = 200;
  Headers headers;  // Content-Length, Date, Connection are added by the server
  std::string body;
};

// One request and its answer. Held by shared_ptr; every method may be called from any thread, and
// after the client has gone (then it does nothing). Exactly one of respond() or begin_stream() is
// called; dropping the last pointer without either answers 500. Dropping it in the middle of a
// stream closes the connection without the last chunk, so that the client can tell.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  virtual void respond(Response response) = 0;
  // Chunked answer. write() queues; what is queued together leaves as one chunk in one system call.
  virtual void begin_stream(int status, Headers headers) = 0;
  virtual void write(std::string bytes) = 0;
  virtual void end_stream() = 0;
  // Bytes of the answer that the operating system has not taken yet.
  virtual size_t queued_bytes() const = 0;
  // Called once, on the io thread, when the client goes away before respond() or end_stream() was
  // called (after that the answer no longer concerns its maker, delivered or not). If it has gone
  // already: soon on the io thread, or at once when called there or when the server has stopped.
  // A client that shuts down only its sending side counts as gone.
  virtual void on_client_gone(std::function<void()> callback) = 0;
  virtual bool client_gone() const = 0;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: any free port
  size_t max_body_bytes = 32u << 20;
  size_t max_header_bytes = 64u << 10;
  int header_timeout_ms = 10'000;        // from the first byte of a request to its last header
  int body_timeout_ms = 60'000;          // no progress of the body for so long
  int idle_timeout_ms = 75'000;          // keep-alive without a request
  int write_timeout_ms = 60'000;         // a client that does not read
  size_t max_connections = 8'192;        // one more is answered 503
  size_t max_buffered_bytes = 1u << 30;  // bodies of all requests being read or answered; 503
  std::string tls_cert_file;             // PEM; both or none
  std::string tls_key_file;
};

// HTTP/1.1 server on its own io thread (Boost.Asio). The handler runs on the io thread and must
// not block; what it throws is logged and answered 500. Malformed requests are answered by the
// server itself through `error_body`, which makes the body (JSON) for a status and message.
class HttpServer {
 public:
  using Handler = std::function<void(std::shared_ptr<Exchange>)>;
  using ErrorBody = std::function<std::string(int status, std::string_view message)>;

  virtual ~HttpServer() = default;  // stops
  // Binds and listens before it returns. `host` is an IPv4 or IPv6 literal ("::" takes both) or a
  // name, of which every address is bound. Throws Error{invalid_argument} when the address is
  // taken or unknown or the certificate does not load. Raises the process's soft limit of open
  // files to the hard one.
  static std::unique_ptr<HttpServer> start(const ServerOptions& options, Handler handler,
                                           ErrorBody error_body);
  virtual uint16_t port() const = 0;
  // No new connections; idle ones close; answers in flight go on.
  virtual void stop_accepting() = 0;
  // Closes everything, tells on_client_gone of the answers in flight, drops posted functions that
  // have not begun, joins the io thread. Not from the io thread.
  virtual void stop() = 0;
  virtual size_t open_connections() const = 0;
  // Runs fn on the io thread soon / after a delay (timers for pings, deadlines). From any thread;
  // does nothing after stop().
  virtual void post(std::function<void()> fn) = 0;
  virtual void post_after(int delay_ms, std::function<void()> fn) = 0;
};

}  // namespace strata::net
