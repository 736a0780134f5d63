#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_server.h"

namespace strata::net {

// Bytes %XX decoded. nullopt: a bad escape, a zero byte, or a result that is not UTF-8.
std::optional<std::string> decode_percent(std::string_view text);
// Compares ASCII letters without case.
bool equal_ignoring_case(std::string_view a, std::string_view b);

struct ParserLimits {
  size_t max_header_bytes = 64u << 10;  // request line and headers; trailers likewise
  size_t max_headers = 256;
  size_t max_body_bytes = 32u << 20;
};

// Reads one HTTP/1.x request from bytes that arrive in pieces (RFC 9112). No input/output here.
//
// It takes only what has one meaning, because two readers of one byte stream that disagree about
// where a request ends are a security hole: lines end in CR LF and hold no other control
// character, no header continues on a next line, the length is given once (one Content-Length of
// digits only, or `Transfer-Encoding: chunked` and nothing else), HTTP/1.1 has exactly one Host.
// Chunk extensions and trailers are checked and dropped.
class RequestParser {
 public:
  struct Refusal {
    int status = 0;  // 400, 413, 417 or 431; 0: none
    std::string message;
  };

  explicit RequestParser(const ParserLimits& limits);

  // Takes bytes from the front of `input` and returns how many; the rest (and more) must be at the
  // front of the next call's input. It keeps at most max_header_bytes waiting. Not to be called
  // once done() or failed().
  size_t consume(std::string_view input);

  bool started() const { return started_; }  // a byte of a request has been seen
  bool head_done() const { return head_done_; }
  bool done() const { return state_ == State::done; }
  bool failed() const { return refusal_.status != 0; }
  const Refusal& refusal() const { return refusal_; }

  // Valid once head_done().
  bool is_head() const { return is_head_; }  // HEAD; the request says GET
  bool http_1_0() const { return http_1_0_; }
  bool keep_alive() const { return keep_alive_; }
  bool expects_continue() const { return expects_continue_; }
  size_t body_bytes() const { return request_.body.size(); }  // so far
  Request take_request() { return std::move(request_); }

 private:
  enum class State { head, body, chunk_size, chunk_data, chunk_end, trailer, done };

  void refuse(int status, std::string message);
  // The position after the empty line that ends the head; 0: not there yet, or refused.
  size_t find_head_end(std::string_view input);
  void parse_head(std::string_view head);
  bool parse_request_line(std::string_view line);
  bool parse_target(std::string_view target);
  bool parse_header(std::string_view line);
  bool check_headers();
  bool check_length();
  size_t consume_head(std::string_view input);
  size_t consume_body(std::string_view input);
  size_t consume_chunk_size(std::string_view input);
  size_t consume_chunk_data(std::string_view input);
  size_t consume_chunk_end(std::string_view input);
  size_t consume_trailer(std::string_view input);

  ParserLimits limits_;
  State state_ = State::head;
  Refusal refusal_;
  Request request_;
  size_t scanned_ = 0;      // bytes of the head looked at
  size_t line_start_ = 0;   // of the line being looked at
  uint64_t remaining_ = 0;  // of the body or the chunk
  size_t trailer_bytes_ = 0;
  bool started_ = false;
  bool head_done_ = false;
  bool is_head_ = false;
  bool http_1_0_ = false;
  bool keep_alive_ = false;
  bool expects_continue_ = false;
};

}  // namespace strata::net
