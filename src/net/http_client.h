#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_server.h"

namespace strata::net {

struct ClientOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 80;
  bool tls = false;
  std::string ca_file = "";  // PEM; trusted besides the system's
  bool verify = true;        // the certificate and its name
  int connect_timeout_ms = 5'000;
  int io_timeout_ms = 60'000;  // no progress of a send or receive for so long
};

struct ClientResponse {
  int status = 0;
  Headers headers;
  std::string body;  // empty if it went to a callback
  std::string_view header(std::string_view name) const { return find_header(headers, name); }
};

// A small blocking HTTP/1.1 client for tests and load generators: one connection, kept alive and
// opened again when the server has closed it. One thread at a time. Throws Error: not_found when
// nothing answers at the address, data_corrupt for an answer that is no HTTP or ends early,
// cancelled for a time-out.
class HttpClient {
 public:
  // Gets the body in pieces as they arrive, after `response.status` and headers are set; false ends
  // the request and closes the connection.
  using OnBody = std::function<bool(const ClientResponse& response, std::string_view bytes)>;

  explicit HttpClient(ClientOptions options);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  ClientResponse get(std::string_view target, const Headers& headers = {});
  ClientResponse post(std::string_view target, std::string_view body, const Headers& headers = {});
  ClientResponse request(std::string_view method, std::string_view target, std::string_view body,
                         const Headers& headers, const OnBody& on_body = {});
  // Requests sent on the connection that is open; 0: none is.
  int requests_on_connection() const;
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// {host, port, tls} of "http://host:port", "https://[::1]"; a path is cut. Throws Error.
ClientOptions parse_base_url(std::string_view url);

}  // namespace strata::net
