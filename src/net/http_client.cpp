#include "net/http_client.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"
#include "net/client_socket.h"
#include "net/http_parser.h"

namespace strata::net {
namespace {

constexpr size_t kMaxHead = 256u << 10;
constexpr size_t kReceive = 16u << 10;

template <typename T>
std::optional<T> parse_number(std::string_view text, int base = 10) {
  T value{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (ec != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

struct HttpClient::Impl {
  explicit Impl(ClientOptions o) : options(std::move(o)) {}

  ClientOptions options;
  std::unique_ptr<ClientSocket> socket;
  std::string input;  // received, not parsed
  int requests = 0;
  // False: the server closed early. It may have answered before that (413), so look all the same.
  bool sent_whole = true;

  [[noreturn]] void broken(std::string_view what) {
    close();
    fail(ErrorCode::data_corrupt, "http: {} port {}: {}", options.host, options.port, what);
  }

  void close() {
    socket.reset();
    input.clear();
    requests = 0;
  }

  void receive() {
    if (socket->receive(input, kReceive) == 0) {
      broken(sent_whole ? "the answer ended early" : "the connection ended inside the request");
    }
  }

  std::string take_line() {
    size_t end = 0;
    while ((end = input.find("\r\n")) == std::string::npos) {
      if (input.size() > kMaxHead) broken("a line of the answer is too long");
      receive();
    }
    std::string line = input.substr(0, end);
    input.erase(0, end + 2);
    return line;
  }

  ClientResponse read_head() {
    for (;;) {
      ClientResponse response;
      const std::string status_line = take_line();
      const auto status = parse_number<int>(
          std::string_view(status_line).substr(std::min<size_t>(status_line.size(), 9), 3));
      if (status_line.substr(0, 7) != "HTTP/1." || !status) broken("the answer is not HTTP/1.1");
      response.status = *status;
      for (std::string line = take_line(); !line.empty(); line = take_line()) {
        const size_t colon = line.find(':');
        if (colon == std::string::npos) broken("a header of the answer has no colon");
        const size_t value = std::min(line.find_first_not_of(" \t", colon + 1), line.size());
        response.headers.emplace_back(line.substr(0, colon), line.substr(value));
      }
      if (response.status >= 200) return response;  // 1xx: another one follows
    }
  }

  // Hands out n bytes of the body (or what comes before the end); false: the caller has enough.
  template <typename Sink>
  bool pass(uint64_t n, const Sink& sink) {
    while (n > 0) {
      if (input.empty()) receive();
      const size_t part = static_cast<size_t>(std::min<uint64_t>(n, input.size()));
      const std::string bytes = input.substr(0, part);
      input.erase(0, part);
      n -= part;
      if (!sink(bytes)) return false;
    }
    return true;
  }

  template <typename Sink>
  bool pass_chunks(const Sink& sink) {
    for (;;) {
      const std::string line = take_line();
      const auto size = parse_number<uint64_t>(line.substr(0, line.find(';')), 16);
      if (!size) broken("a chunk of the answer has no size");
      if (*size == 0) break;
      if (!pass(*size, sink)) return false;
      if (!take_line().empty()) broken("a chunk of the answer has the wrong size");
    }
    while (!take_line().empty()) {  // trailers
    }
    return true;
  }

  template <typename Sink>
  bool pass_to_end(const Sink& sink) {
    for (;;) {
      if (!input.empty() && !sink(std::exchange(input, {}))) return false;
      if (socket->receive(input, kReceive) == 0) return true;
    }
  }

  void send(std::string_view text) {
    const bool reused = socket != nullptr;
    if (!reused) socket = std::make_unique<ClientSocket>(options);
    sent_whole = socket->send(text);
    // A kept connection may have been closed meanwhile; nothing was answered, so try a new one.
    if (reused && (!sent_whole || (input.empty() && socket->receive(input, kReceive) == 0))) {
      close();
      socket = std::make_unique<ClientSocket>(options);
      sent_whole = socket->send(text);
    }
    ++requests;
  }
};

HttpClient::HttpClient(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

ClientResponse HttpClient::get(std::string_view target, const Headers& headers) {
  return request("GET", target, {}, headers);
}

ClientResponse HttpClient::post(std::string_view target, std::string_view body,
                                const Headers& headers) {
  return request("POST", target, body, headers);
}

ClientResponse HttpClient::request(std::string_view method, std::string_view target,
                                   std::string_view body, const Headers& headers,
                                   const OnBody& on_body) {
  const std::string& host = impl_->options.host;
  const bool v6 = host.find(':') != std::string::npos;
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}{}{}:{}\r\n", method, target,
                                 v6 ? "[" : "", host, v6 ? "]" : "", impl_->options.port);
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  const bool bodiless = body.empty() && (method == "GET" || method == "HEAD");
  if (!bodiless) {
    if (find_header(headers, "content-type").empty()) text += "Content-Type: application/json\r\n";
    text += fmt::format("Content-Length: {}\r\n", body.size());
  }
  text += "\r\n";
  text += body;

  ClientResponse response;
  try {
    impl_->send(text);
    response = impl_->read_head();
    const auto sink = [&](std::string_view bytes) {
      if (on_body) return on_body(response, bytes);
      response.body += bytes;
      return true;
    };
    bool whole = true;
    bool keep = !equal_ignoring_case(response.header("connection"), "close");
    const std::string_view length = response.header("content-length");
    if (method == "HEAD" || response.status == 204 || response.status == 304) {
      // no body
    } else if (equal_ignoring_case(response.header("transfer-encoding"), "chunked")) {
      whole = impl_->pass_chunks(sink);
    } else if (!length.empty()) {
      const auto size = parse_number<uint64_t>(length);
      if (!size) impl_->broken("Content-Length of the answer is not a number");
      whole = impl_->pass(*size, sink);
    } else {
      whole = impl_->pass_to_end(sink);
      keep = false;
    }
    if (!whole || !keep) impl_->close();
  } catch (...) {
    impl_->close();
    throw;
  }
  return response;
}

int HttpClient::requests_on_connection() const { return impl_->requests; }
void HttpClient::close() { impl_->close(); }

ClientOptions parse_base_url(std::string_view url) {
  ClientOptions options;
  std::string_view rest = url;
  if (rest.substr(0, 8) == "https://") {
    options.tls = true;
    rest.remove_prefix(8);
  } else if (rest.substr(0, 7) == "http://") {
    rest.remove_prefix(7);
  } else {
    fail(ErrorCode::invalid_argument, "url {}: wanted http://HOST:PORT or https://HOST:PORT", url);
  }
  rest = rest.substr(0, rest.find_first_of("/?#"));
  options.port = options.tls ? 443 : 80;
  size_t end = std::min(rest.find(':'), rest.size());
  if (!rest.empty() && rest[0] == '[') {
    const size_t bracket = rest.find(']');
    if (bracket == std::string_view::npos) {
      fail(ErrorCode::invalid_argument, "url {}: an IPv6 address is [ADDRESS]", url);
    }
    options.host = rest.substr(1, bracket - 1);
    end = bracket + 1;
  } else {
    options.host = rest.substr(0, end);
  }
  const std::string_view port = rest.substr(end);
  if (!port.empty()) {
    const auto number = parse_number<uint16_t>(port.substr(1));
    if (port[0] != ':' || !number || *number == 0) {
      fail(ErrorCode::invalid_argument, "url {}: the port is not 1 to 65535", url);
    }
    options.port = *number;
  }
  if (options.host.empty()) fail(ErrorCode::invalid_argument, "url {}: no host", url);
  return options;
}

}  // namespace strata::net
