#include "net/http_connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "net/http_text.h"

namespace strata::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using std::chrono::milliseconds;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
// Received beyond the request being answered (pipelining); then reading pauses.
constexpr size_t kMaxAhead = 64u << 10;
constexpr size_t kTlsRead = 16u << 10;  // one TLS record
constexpr auto kLinger = milliseconds(2'000);

std::string peer_name(const tcp::socket& socket) {
  error_code ec;
  const tcp::endpoint peer = socket.remote_endpoint(ec);
  if (ec) return "unknown";
  const std::string address = peer.address().to_string();
  return peer.address().is_v6() ? fmt::format("[{}]:{}", address, peer.port())
                                : fmt::format("{}:{}", address, peer.port());
}

// What the handler holds.
class ServerExchange : public Exchange {
 public:
  ServerExchange(Request request, std::shared_ptr<Answer> answer)
      : request_(std::move(request)), answer_(std::move(answer)) {}
  ~ServerExchange() override { answer_->abandon(); }
  const Request& request() const override { return request_; }
  void respond(Response response) override { answer_->respond(std::move(response)); }
  void begin_stream(int status, Headers headers) override {
    answer_->begin_stream(status, std::move(headers));
  }
  void write(std::string bytes) override { answer_->write(std::move(bytes)); }
  void end_stream() override { answer_->end_stream(); }
  size_t queued_bytes() const override { return answer_->queued_bytes(); }
  void on_client_gone(std::function<void()> callback) override {
    answer_->on_client_gone(std::move(callback));
  }
  bool client_gone() const override { return answer_->client_gone(); }

 private:
  const Request request_;
  const std::shared_ptr<Answer> answer_;
};

}  // namespace

Connection::Connection(std::shared_ptr<ServerShared> shared, tcp::socket socket)
    : shared_(std::move(shared)),
      socket_(std::move(socket)),
      wake_(shared_->loop->context()),
      reader_wake_(shared_->loop->context()),
      write_timer_(shared_->loop->context()),
      peer_(peer_name(socket_)) {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  shared_->connections.insert(this);
  ++shared_->open;
}

Connection::~Connection() {
  account_body(0);
  shared_->connections.erase(this);
  --shared_->open;
}

void Connection::start() {
  asio::co_spawn(
      shared_->loop->context(), [self = shared_from_this()] { return self->run(); },
      [](std::exception_ptr e) {
        if (!e) return;
        try {
          std::rethrow_exception(e);
        } catch (const std::exception& fault) {
          log_error("http: a connection failed: {}", fault.what());
        }
      });
}

void Connection::drain() { wake(); }

void Connection::close() {
  if (closed_) return;
  closed_ = ended_ = true;
  error_code ignored;
  socket_.close(ignored);
  wake_.cancel();
  reader_wake_.cancel();
  write_timer_.cancel();
  // A copy: what is told may end the answer.
  if (const std::shared_ptr<Answer> answer = answer_) answer->client_left();
}

asio::awaitable<void> Connection::run() {
  const std::shared_ptr<Connection> self = shared_from_this();
  std::exception_ptr fault;
  try {
    if (co_await handshake()) {
      reading_ = true;
      asio::co_spawn(
          shared_->loop->context(), [self] { return self->read_loop(); }, asio::detached);
      co_await serve();
    }
  } catch (...) {
    fault = std::current_exception();
  }
  close();
  if (fault) std::rethrow_exception(fault);
}

asio::awaitable<bool> Connection::handshake() {
  if (!shared_->tls) co_return true;
  tls_.emplace(socket_, *shared_->tls);
  tls_buffer_.resize(kTlsRead);
  write_timer_.expires_after(milliseconds(shared_->options.header_timeout_ms));
  write_timer_.async_wait([self = shared_from_this()](const error_code& ec) {
    if (!ec) self->close();
  });
  const auto [ec] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kTuple);
  write_timer_.cancel();
  co_return !ec && !closed_;
}

// Appends to input_; 0: the end, or a fault, which is the same here.
asio::awaitable<size_t> Connection::read_some() {
  if (tls_) {
    const auto [ec, n] = co_await tls_->async_read_some(asio::buffer(tls_buffer_), kTuple);
    if (ec) co_return 0;
    if (!discard_) input_.append(tls_buffer_.data(), n);
    co_return n;
  }
  // Waiting needs no buffer, so idle connections cost none; all read into the same one.
  for (;;) {
    const auto [wait_ec] = co_await socket_.async_wait(tcp::socket::wait_read, kTuple);
    if (wait_ec || closed_) co_return 0;
    error_code ec;
    std::vector<char>& scratch = shared_->scratch;
    const size_t n = socket_.read_some(asio::buffer(scratch), ec);
    if (ec == asio::error::would_block || ec == asio::error::interrupted) continue;
    if (ec) co_return 0;
    if (!discard_) input_.append(scratch.data(), n);
    co_return n;
  }
}

asio::awaitable<void> Connection::read_loop() {
  const std::shared_ptr<Connection> self = shared_from_this();
  const size_t limit = shared_->options.max_header_bytes + kMaxAhead;
  while (!closed_) {
    if (input_.size() >= limit && !discard_) {
      reader_wake_.expires_at(Clock::time_point::max());
      co_await reader_wake_.async_wait(kTuple);
      continue;
    }
    if (co_await read_some() == 0) break;
    wake();
  }
  reading_ = false;
  ended_ = true;
  // Nobody is left to read an answer that is being made.
  if (answer_) {
    close();
  } else {
    wake();
  }
}

asio::awaitable<bool> Connection::wait(Clock::time_point deadline) {
  wake_.expires_at(deadline);
  co_await wake_.async_wait(kTuple);
  co_return Clock::now() >= deadline;
}

asio::awaitable<bool> Connection::write(Buffers buffers) {
  const milliseconds timeout(shared_->options.write_timeout_ms);
  size_t first = 0;  // buffer not sent whole
  while (!closed_) {
    while (first < buffers.size() && buffers[first].size() == 0) ++first;
    if (first == buffers.size()) co_return true;
    const auto rest = std::vector<asio::const_buffer>(buffers.begin() + first, buffers.end());
    size_t n = 0;
    error_code ec;
    if (!tls_) n = socket_.write_some(rest, ec);
    if (tls_ || ec == asio::error::would_block) {
      write_timer_.expires_after(timeout);
      write_timer_.async_wait([self = shared_from_this()](const error_code& timer_ec) {
        if (timer_ec) return;
        log_debug("http: {} does not read; closed", self->peer_);
        self->close();
      });
      if (tls_) {
        std::tie(ec, n) = co_await tls_->async_write_some(rest, kTuple);
      } else {
        std::tie(ec) = co_await socket_.async_wait(tcp::socket::wait_write, kTuple);
      }
      write_timer_.cancel();
    }
    if (ec && ec != asio::error::interrupted) co_return false;
    for (; n > 0 && n >= buffers[first].size(); ++first) n -= buffers[first].size();
    if (n > 0) buffers[first] += n;
  }
  co_return false;
}

bool Connection::account_body(size_t bytes) {
  shared_->buffered_bytes += bytes - body_bytes_;
  const bool more = bytes > body_bytes_;
  body_bytes_ = bytes;
  return !more || shared_->buffered_bytes <= shared_->options.max_buffered_bytes;
}

asio::awaitable<Connection::Incoming> Connection::read_request(RequestParser& parser) {
  const ServerOptions& options = shared_->options;
  const auto in = [](int timeout_ms) { return Clock::now() + milliseconds(timeout_ms); };
  auto deadline = in(options.idle_timeout_ms);
  bool continued = false;
  while (!closed_) {
    const bool had_started = parser.started();
    const size_t used = parser.consume(input_);
    input_.erase(0, used);
    if (used > 0) reader_wake_.cancel();
    if (!account_body(parser.body_bytes())) {
      co_await refuse(503, "too many request bodies are being received", parser.is_head());
      co_return Incoming::refused;
    }
    if (parser.failed()) {
      co_await refuse(parser.refusal().status, parser.refusal().message, parser.is_head());
      co_return Incoming::refused;
    }
    if (parser.done()) co_return Incoming::request;
    if (!parser.started() && (ended_ || shared_->draining)) co_return Incoming::closed;
    if (ended_) {
      co_await refuse(400, "the connection ended before the request did", parser.is_head());
      co_return Incoming::refused;
    }
    if (parser.expects_continue() && parser.head_done() && !continued) {
      continued = true;
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      if (!co_await write(Buffers(1, asio::buffer(kContinue)))) co_return Incoming::closed;
      continue;
    }
    if (parser.started() && !had_started) deadline = in(options.header_timeout_ms);
    if (parser.head_done() && used > 0) deadline = in(options.body_timeout_ms);
    if (!co_await wait(deadline)) continue;
    if (!parser.started()) co_return Incoming::closed;
    co_await refuse(400, "the request did not arrive in time", parser.is_head());
    co_return Incoming::refused;
  }
  co_return Incoming::closed;
}

Response Connection::error_response(int status, std::string_view message) const {
  Response response{status, {{"Content-Type", "application/json"}}, {}};
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  response.body = shared_->error_body(status, message);
  return response;
}

asio::awaitable<void> Connection::refuse(int status, std::string message, bool is_head) {
  account_body(0);
  log_debug("http: {}: refused ({}): {}", peer_, status, message);
  const Response response = error_response(status, message);
  const std::string head = format_head(
      status, response.headers, {.keep_alive = false, .content_length = response.body.size()});
  Buffers buffers(1, asio::buffer(head));
  if (!is_head) buffers.push_back(asio::buffer(response.body));
  co_await write(std::move(buffers));
}

std::shared_ptr<Answer> Connection::dispatch(RequestParser& parser) {
  auto answer = std::make_shared<Answer>(shared_->loop, [weak = weak_from_this()] {
    if (const std::shared_ptr<Connection> self = weak.lock()) self->wake();
  });
  Request request = parser.take_request();
  request.peer = peer_;
  try {
    shared_->handler(std::make_shared<ServerExchange>(std::move(request), answer));
  } catch (const std::exception& e) {
    // The exchange is gone or will go, and then 500 is answered.
    log_error("http: the handler failed: {}", e.what());
  }
  return answer;
}

asio::awaitable<bool> Connection::send_part(Answer& answer, Answer::Part part,
                                            const RequestParser& parser, bool keep_alive) {
  const bool chunked = part.kind == Answer::Kind::stream && !parser.http_1_0();
  const int status = part.head.status;
  const bool has_body = !parser.is_head() && status != 204 && status != 304;
  std::string head;
  if (part.has_head) {
    HeadOptions options;
    options.http_1_0 = parser.http_1_0();
    options.keep_alive = keep_alive;
    options.chunked = chunked;
    if (part.kind == Answer::Kind::whole && status != 204) {
      options.content_length = part.head.body.size();
    }
    head = format_head(status, part.head.headers, options);
  }
  Buffers buffers(1, asio::buffer(head));
  const std::string& bytes = part.kind == Answer::Kind::whole ? part.head.body : part.bytes;
  std::string size_line;
  if (has_body && !bytes.empty()) {
    if (chunked) {
      size_line = fmt::format("{:x}\r\n", bytes.size());
      buffers.push_back(asio::buffer(size_line));
    }
    buffers.push_back(asio::buffer(bytes));
    if (chunked) buffers.push_back(asio::buffer("\r\n", 2));
  }
  if (has_body && chunked && part.last) buffers.push_back(asio::buffer("0\r\n\r\n", 5));
  if (!co_await write(std::move(buffers))) co_return false;
  answer.sent(bytes.size());
  co_return true;
}

// True if the answer is complete and the connection may go on.
asio::awaitable<bool> Connection::send_answer(Answer& answer, const RequestParser& parser) {
  bool keep_alive = parser.keep_alive();
  while (!closed_) {
    Answer::Part part = answer.take();
    if (part.abandoned && part.kind == Answer::Kind::none) {
      part.kind = Answer::Kind::whole;
      part.has_head = part.last = true;
      part.head = error_response(500, "the request was dropped without an answer");
    }
    if (!part.has_head && part.bytes.empty() && !part.last && !part.abandoned) {
      co_await wait(Clock::time_point::max());
      continue;
    }
    const bool last = part.last;
    const bool cut = part.abandoned && !last;
    if (part.has_head) {
      // A stream in HTTP/1.0 ends with the connection.
      if (part.kind == Answer::Kind::stream && parser.http_1_0()) keep_alive = false;
      if (shared_->draining) keep_alive = false;
    }
    if (!co_await send_part(answer, std::move(part), parser, keep_alive) || cut) {
      close();
      co_return false;
    }
    if (last) co_return keep_alive;
  }
  co_return false;
}

asio::awaitable<void> Connection::serve() {
  const ParserLimits limits{.max_header_bytes = shared_->options.max_header_bytes,
                            .max_body_bytes = shared_->options.max_body_bytes};
  bool keep_alive = true;
  while (keep_alive && !closed_) {
    RequestParser parser(limits);
    const Incoming incoming = co_await read_request(parser);
    // An idle plain connection has nothing to say; TLS takes its leave.
    if (incoming == Incoming::closed && !tls_) co_return;
    if (incoming != Incoming::request) break;
    const std::shared_ptr<Answer> answer = dispatch(parser);
    answer_ = answer;
    if (ended_) close();  // it left while its request was still in the buffer
    keep_alive = co_await send_answer(*answer, parser);
    answer_ = nullptr;
    account_body(0);
  }
  co_await linger();
}

asio::awaitable<void> Connection::linger() {
  // Closing with unread input resets the connection, and the client may lose the last answer.
  discard_ = true;
  input_.clear();
  reader_wake_.cancel();
  if (closed_) co_return;
  error_code ignored;
  const auto deadline = Clock::now() + kLinger;
  if (tls_) {
    write_timer_.expires_at(deadline);
    write_timer_.async_wait([self = shared_from_this()](const error_code& ec) {
      if (!ec) self->close();
    });
    co_await tls_->async_shutdown(kTuple);
    write_timer_.cancel();
    if (closed_) co_return;
  }
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  while (!ended_ && !closed_) {
    if (co_await wait(deadline)) break;
  }
  co_return;
}

}  // namespace strata::net
