#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "net/http_answer.h"
#include "net/http_parser.h"
#include "net/http_server.h"
#include "net/io_loop.h"

namespace strata::net {

class Connection;

// What the connections of one server share; io thread only.
struct ServerShared {
  ServerOptions options;
  HttpServer::Handler handler;
  HttpServer::ErrorBody error_body;
  std::shared_ptr<IoLoop> loop;
  std::optional<boost::asio::ssl::context> tls;
  std::unordered_set<Connection*> connections;
  std::atomic<size_t> open{0};  // connections, for other threads
  size_t buffered_bytes = 0;    // of request bodies
  bool draining = false;        // close each connection after its answer
  std::vector<char> scratch = std::vector<char>(64u << 10);
};

// One client. Two coroutines on the io thread: read_loop() takes bytes as they come, also while an
// answer is made (so that it sees the client leave), up to a limit; serve() takes requests from
// them one by one and sends their answers in order.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerShared> shared, boost::asio::ip::tcp::socket socket);
  ~Connection();
  void start();
  void drain();  // close once no request is being read or answered
  void close();  // at once

 private:
  using Buffers = std::vector<boost::asio::const_buffer>;
  template <typename T>
  using awaitable = boost::asio::awaitable<T>;
  using Clock = std::chrono::steady_clock;

  awaitable<void> run();
  awaitable<bool> handshake();
  awaitable<void> serve();
  awaitable<void> read_loop();
  awaitable<size_t> read_some();

  enum class Incoming { request, refused, closed };
  awaitable<Incoming> read_request(RequestParser& parser);
  bool account_body(size_t bytes);
  std::shared_ptr<Answer> dispatch(RequestParser& parser);
  awaitable<bool> send_answer(Answer& answer, const RequestParser& parser);
  awaitable<bool> send_part(Answer& answer, Answer::Part part, const RequestParser& parser,
                            bool keep_alive);
  awaitable<void> refuse(int status, std::string message, bool is_head);

  // Sends all of it; false when the client is gone or does not read.
  awaitable<bool> write(Buffers buffers);
  // Waits for wake() or the deadline; true if the deadline has come.
  awaitable<bool> wait(Clock::time_point deadline);
  void wake() { wake_.cancel(); }
  // Ends politely: what was sent arrives even if the client is still sending.
  awaitable<void> linger();
  Response error_response(int status, std::string_view message) const;

  const std::shared_ptr<ServerShared> shared_;
  boost::asio::ip::tcp::socket socket_;
  std::optional<boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>> tls_;
  std::string tls_buffer_;
  boost::asio::steady_timer wake_;
  boost::asio::steady_timer reader_wake_;
  boost::asio::steady_timer write_timer_;
  std::string peer_;
  std::string input_;      // received, not parsed
  size_t body_bytes_ = 0;  // of this connection in shared_->buffered_bytes
  std::shared_ptr<Answer> answer_;
  bool ended_ = false;  // nothing more will be received
  bool closed_ = false;
  bool discard_ = false;  // what is received is dropped
  bool reading_ = false;  // read_loop() runs
};

}  // namespace strata::net
