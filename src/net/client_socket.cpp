#include "net/client_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/error.h"

namespace strata::net {
namespace {

SSL* ssl(void* p) { return static_cast<SSL*>(p); }

// While it lives, writing to a closed socket is no SIGPIPE in this thread: OpenSSL's writes do not
// ask for that, and a library does not change the process's signals.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

bool is_ip_literal(const std::string& host) {
  return host.find(':') != std::string::npos ||
         host.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace

ClientSocket::ClientSocket(const ClientOptions& options) : options_(options) {
  try {
    connect();
    if (options_.tls) start_tls();
  } catch (...) {
    release();
    throw;
  }
}

ClientSocket::~ClientSocket() { release(); }

void ClientSocket::release() {
  if (tls_ != nullptr) {
    const NoPipeSignal no_signal;
    SSL_shutdown(ssl(tls_));  // best effort: the notice, not the peer's
    SSL_free(ssl(tls_));
  }
  SSL_CTX_free(static_cast<SSL_CTX*>(tls_context_));
  if (fd_ >= 0) ::close(fd_);
}

void ClientSocket::wait(short events, int timeout_ms) const {
  pollfd entry{fd_, events, 0};
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    fail(ErrorCode::cancelled, "http: {} port {}: nothing happened for {} ms", options_.host,
         options_.port, timeout_ms);
  }
}

void ClientSocket::connect() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int rc =
      getaddrinfo(options_.host.c_str(), std::to_string(options_.port).c_str(), &hints, &found);
  if (rc != 0) fail(ErrorCode::not_found, "http: {}: {}", options_.host, gai_strerror(rc));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  int error = 0;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    fd_ = ::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) {
      error = errno;
      continue;
    }
    error = ::connect(fd_, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      wait(POLLOUT, options_.connect_timeout_ms);
      socklen_t size = sizeof(error);
      getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) break;
    ::close(fd_);
    fd_ = -1;
  }
  if (fd_ < 0) {
    fail(ErrorCode::not_found, "http: cannot connect to {} port {}: {}", options_.host,
         options_.port, std::strerror(error));
  }
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void ClientSocket::start_tls() {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  STRATA_ASSERT(context != nullptr);
  tls_context_ = context;
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_default_verify_paths(context);
  if (!options_.ca_file.empty() &&
      SSL_CTX_load_verify_locations(context, options_.ca_file.c_str(), nullptr) != 1) {
    fail(ErrorCode::invalid_argument, "http: {} holds no PEM certificates", options_.ca_file);
  }
  tls_ = SSL_new(context);
  STRATA_ASSERT(tls_ != nullptr);
  SSL_set_fd(ssl(tls_), fd_);
  const std::string& host = options_.host;
  if (is_ip_literal(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl(tls_)), host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl(tls_), host.c_str());
    SSL_set1_host(ssl(tls_), host.c_str());
  }
  SSL_set_verify(ssl(tls_), options_.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  const NoPipeSignal no_signal;
  for (;;) {
    const int rc = SSL_connect(ssl(tls_));
    if (rc == 1) return;
    if (!retry_tls(rc)) {
      const long verified = SSL_get_verify_result(ssl(tls_));
      fail(ErrorCode::not_found, "http: no TLS with {} port {}: {}", host, options_.port,
           verified != X509_V_OK ? X509_verify_cert_error_string(verified) : "handshake failed");
    }
  }
}

bool ClientSocket::retry_tls(int result) const {
  const int reason = SSL_get_error(ssl(tls_), result);
  ERR_clear_error();
  if (reason != SSL_ERROR_WANT_READ && reason != SSL_ERROR_WANT_WRITE) return false;
  wait(reason == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, options_.io_timeout_ms);
  return true;
}

bool ClientSocket::send(std::string_view bytes) {
  while (!bytes.empty()) {
    if (tls_ != nullptr) {
      const NoPipeSignal no_signal;
      const int n = SSL_write(ssl(tls_), bytes.data(),
                              static_cast<int>(std::min<size_t>(bytes.size(), 1u << 20)));
      if (n > 0) {
        bytes.remove_prefix(static_cast<size_t>(n));
      } else if (!retry_tls(n)) {
        return false;
      }
      continue;
    }
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      wait(POLLOUT, options_.io_timeout_ms);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

size_t ClientSocket::receive(std::string& out, size_t most) {
  char buffer[16384];
  most = std::min(most, sizeof(buffer));
  for (;;) {
    ssize_t n = 0;
    if (tls_ != nullptr) {
      const NoPipeSignal no_signal;  // reading may have to send
      n = SSL_read(ssl(tls_), buffer, static_cast<int>(most));
      if (n <= 0 && retry_tls(static_cast<int>(n))) continue;
    } else {
      n = ::recv(fd_, buffer, most, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) {
        wait(POLLIN, options_.io_timeout_ms);
        continue;
      }
    }
    if (n <= 0) return 0;
    out.append(buffer, static_cast<size_t>(n));
    return static_cast<size_t>(n);
  }
}

}  // namespace strata::net
