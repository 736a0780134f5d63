#pragma once

// For tests of the server: a raw socket that sends exactly what it is told, and a server with an
// error body.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "net/http_server.h"

namespace strata::net {

class RawPeer {
 public:
  explicit RawPeer(uint16_t port) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawPeer() { close(); }
  RawPeer(RawPeer&& other) noexcept : fd_(other.fd_), connected_(other.connected_) {
    other.fd_ = -1;
  }
  RawPeer& operator=(RawPeer&&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void shutdown_send() { ::shutdown(fd_, SHUT_WR); }

  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // Reads until `enough` holds of everything received, the end, or 10 seconds without a byte.
  std::string read_until(const std::function<bool(const std::string&)>& enough) {
    char buffer[65536];
    while (!enough(received_)) {
      pollfd entry{fd_, POLLIN, 0};
      if (::poll(&entry, 1, 10'000) <= 0) {
        received_ += "<time-out>";
        break;
      }
      const ssize_t n = ::recv(fd_, buffer, sizeof(buffer), 0);
      if (n <= 0) {
        ended_ = true;
        break;
      }
      received_.append(buffer, static_cast<size_t>(n));
    }
    return received_;
  }
  std::string read_until(std::string_view end) {
    return read_until([&](const std::string& all) { return all.find(end) != std::string::npos; });
  }
  std::string read_to_end() {
    return read_until([](const std::string&) { return false; });
  }
  bool ended() const { return ended_; }
  void forget() { received_.clear(); }

 private:
  int fd_ = -1;
  bool connected_ = false;
  bool ended_ = false;
  std::string received_;
};

inline std::string test_error_body(int status, std::string_view message) {
  return "{\"error\":{\"status\":" + std::to_string(status) + ",\"message\":\"" +
         std::string(message) + "\"}}";
}

inline ServerOptions test_options() {
  ServerOptions options;
  options.port = 0;
  return options;
}

// Polls until `condition` holds; false after 10 seconds.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// Status of an answer; 0 if there is none.
inline int status_of(std::string_view answer) {
  return answer.size() > 12 && answer.substr(0, 9) == "HTTP/1.1 "
             ? std::stoi(std::string(answer.substr(9, 3)))
             : 0;
}

inline size_t count_of(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace strata::net
