#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_client.h"

namespace strata::net {

// A connected TCP or TLS socket with time-outs, for HttpClient. Errors as HttpClient says.
class ClientSocket {
 public:
  explicit ClientSocket(const ClientOptions& options);
  ~ClientSocket();
  ClientSocket(const ClientSocket&) = delete;
  ClientSocket& operator=(const ClientSocket&) = delete;

  // False: the other side has closed, and nothing more can be sent.
  [[nodiscard]] bool send(std::string_view bytes);
  // Appends what there is, at least a byte, at most `most`; 0: the end (a reset counts as one).
  [[nodiscard]] size_t receive(std::string& out, size_t most);

 private:
  void release();
  void connect();
  void start_tls();
  // Waits until the socket is ready; throws Error{cancelled} after timeout_ms.
  void wait(short events, int timeout_ms) const;
  // What to do after an SSL call failed: true if it may be tried again now.
  bool retry_tls(int result) const;

  const ClientOptions options_;
  int fd_ = -1;
  void* tls_context_ = nullptr;  // SSL_CTX
  void* tls_ = nullptr;          // SSL
};

}  // namespace strata::net
