#include "net/http_parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace strata::net {
namespace {

// A chunk's size line with its extensions; nobody needs more.
constexpr size_t kMaxChunkLine = 1024;
constexpr size_t kMaxMethod = 32;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// RFC 9110, section 5.6.2.
bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

// Characters that no line may hold: controls but the tab, and DEL.
bool is_forbidden(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Whether a comma-separated header value has this word.
bool lists(std::string_view value, std::string_view word) {
  while (!value.empty()) {
    const size_t comma = std::min(value.find(','), value.size());
    if (equal_ignoring_case(trim(value.substr(0, comma)), word)) return true;
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  return false;
}

// The next line of `text` without its CR LF, which every line here has.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find("\r\n");
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 2);
  return line;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string> decode_percent(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  if (!is_valid_utf8(out)) return std::nullopt;
  return out;
}

RequestParser::RequestParser(const ParserLimits& limits) : limits_(limits) {}

void RequestParser::refuse(int status, std::string message) {
  if (failed()) return;
  refusal_ = {status, std::move(message)};
}

size_t RequestParser::consume(std::string_view input) {
  size_t used = 0;
  while (!done() && !failed()) {
    const State before = state_;
    const std::string_view rest = input.substr(used);
    size_t step = 0;
    switch (state_) {
      case State::head:
        step = consume_head(rest);
        break;
      case State::body:
        step = consume_body(rest);
        break;
      case State::chunk_size:
        step = consume_chunk_size(rest);
        break;
      case State::chunk_data:
        step = consume_chunk_data(rest);
        break;
      case State::chunk_end:
        step = consume_chunk_end(rest);
        break;
      case State::trailer:
        step = consume_trailer(rest);
        break;
      case State::done:
        break;
    }
    used += step;
    if (step == 0 && state_ == before) break;
  }
  return used;
}

size_t RequestParser::consume_head(std::string_view input) {
  // Empty lines before a request are skipped (RFC 9112, section 2.2).
  if (!started_ && !input.empty()) {
    if (input.substr(0, 2) == "\r\n") return 2;
    if (input == "\r") return 0;
    started_ = true;
  }
  const size_t end = find_head_end(input);
  if (end == 0) return 0;
  parse_head(input.substr(0, end));
  return end;
}

size_t RequestParser::find_head_end(std::string_view input) {
  for (; scanned_ < input.size(); ++scanned_) {
    if (scanned_ >= limits_.max_header_bytes) {
      refuse(431, fmt::format("the request line and headers are longer than {} bytes",
                              limits_.max_header_bytes));
      return 0;
    }
    const char c = input[scanned_];
    const bool after_cr = scanned_ > line_start_ && input[scanned_ - 1] == '\r';
    if (after_cr != (c == '\n') || (is_forbidden(c) && c != '\r' && c != '\n')) {
      refuse(400, fmt::format("byte {} of the request's head is a control character or half a "
                              "line end; is this HTTP/1.1 without TLS?",
                              scanned_));
      return 0;
    }
    if (c == '\n') {
      if (scanned_ == line_start_ + 1) return scanned_ + 1;
      line_start_ = scanned_ + 1;
    } else if (scanned_ == line_start_ && (c == ' ' || c == '\t')) {
      refuse(400, "a line of the request's head begins with a blank");
      return 0;
    }
  }
  return 0;
}

void RequestParser::parse_head(std::string_view head) {
  if (!parse_request_line(take_line(head))) return;
  while (head.size() > 2) {
    if (!parse_header(take_line(head))) return;
  }
  if (!check_headers() || !check_length()) return;
  head_done_ = true;
}

bool RequestParser::parse_request_line(std::string_view line) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    refuse(400, "the request line is not `METHOD TARGET HTTP/1.1`");
    return false;
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method) || method.size() > kMaxMethod) {
    refuse(400, "the method is not a word");
    return false;
  }
  if (version.size() != 8 || version.substr(0, 7) != "HTTP/1." || !is_digit(version[7])) {
    refuse(400, "the protocol is not HTTP/1.1 or HTTP/1.0");
    return false;
  }
  is_head_ = method == "HEAD";
  http_1_0_ = version[7] == '0';
  request_.method = is_head_ ? "GET" : std::string(method);
  request_.is_head = is_head_;
  return parse_target(line.substr(first + 1, last - first - 1));
}

bool RequestParser::parse_target(std::string_view target) {
  // Blanks are the only characters below 0x21 that are left; a fragment is never sent.
  if (target.empty() || target.find_first_of(" \t#") != std::string_view::npos) {
    refuse(400, "the request's target holds a blank or a fragment");
    return false;
  }
  if (target == "*" && request_.method == "OPTIONS") {
    request_.path = "*";
    return true;
  }
  for (const std::string_view scheme : {"http://", "https://"}) {  // absolute form, for proxies
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    target.remove_prefix(std::min(target.find_first_of("/?"), target.size()));
    if (target.empty() || target[0] == '?') request_.path = "/";
    break;
  }
  const size_t question = std::min(target.find('?'), target.size());
  if (question < target.size()) request_.query = target.substr(question + 1);
  target = target.substr(0, question);
  if (target.empty() && request_.path == "/") return true;
  if (target.empty() || target[0] != '/') {
    refuse(400, "the request's target does not begin with a slash");
    return false;
  }
  std::optional<std::string> path = decode_percent(target);
  if (!path) {
    refuse(400, "the path has a bad percent escape or is not UTF-8");
    return false;
  }
  request_.path = std::move(*path);
  return true;
}

bool RequestParser::parse_header(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    refuse(400, "a header is not `NAME: VALUE`");
    return false;
  }
  if (request_.headers.size() >= limits_.max_headers) {
    refuse(431, fmt::format("the request has more than {} headers", limits_.max_headers));
    return false;
  }
  request_.headers.emplace_back(line.substr(0, colon), trim(line.substr(colon + 1)));
  return true;
}

bool RequestParser::check_headers() {
  size_t hosts = 0;
  bool close = false;
  bool keep = false;
  for (const auto& [name, value] : request_.headers) {
    if (equal_ignoring_case(name, "host")) {
      ++hosts;
    } else if (equal_ignoring_case(name, "connection")) {
      close = close || lists(value, "close");
      keep = keep || lists(value, "keep-alive");
    } else if (equal_ignoring_case(name, "expect") && !http_1_0_) {
      if (!equal_ignoring_case(value, "100-continue")) {
        refuse(417, "the only expectation known is 100-continue");
        return false;
      }
      expects_continue_ = true;
    }
  }
  if (hosts > 1 || (hosts == 0 && !http_1_0_)) {
    refuse(400, fmt::format("the request has {} Host headers, wanted 1", hosts));
    return false;
  }
  keep_alive_ = !close && (!http_1_0_ || keep);
  return true;
}

bool RequestParser::check_length() {
  std::optional<std::string_view> length;
  bool chunked = false;
  for (const auto& [name, value] : request_.headers) {
    const bool is_length = equal_ignoring_case(name, "content-length");
    const bool is_encoding = equal_ignoring_case(name, "transfer-encoding");
    if (!is_length && !is_encoding) continue;
    if (length || chunked) {
      refuse(400, "the length of the body is given twice (Content-Length, Transfer-Encoding)");
      return false;
    }
    if (is_encoding && (http_1_0_ || !equal_ignoring_case(value, "chunked"))) {
      refuse(400, "the only Transfer-Encoding known is `chunked`, in HTTP/1.1");
      return false;
    }
    if (is_length && (value.empty() || !std::all_of(value.begin(), value.end(), is_digit))) {
      refuse(400, "Content-Length is not a number");
      return false;
    }
    if (is_length) length = value;
    chunked = is_encoding;
  }
  if (chunked) {
    state_ = State::chunk_size;
    return true;
  }
  for (const char digit : length.value_or("")) {
    remaining_ = remaining_ * 10 + static_cast<uint64_t>(digit - '0');
    if (remaining_ > limits_.max_body_bytes) {
      refuse(413, fmt::format("the body is longer than {} bytes", limits_.max_body_bytes));
      return false;
    }
  }
  state_ = remaining_ == 0 ? State::done : State::body;
  return true;
}

size_t RequestParser::consume_body(std::string_view input) {
  const size_t n = static_cast<size_t>(std::min<uint64_t>(remaining_, input.size()));
  request_.body.append(input.substr(0, n));
  remaining_ -= n;
  if (remaining_ == 0) state_ = State::done;
  return n;
}

size_t RequestParser::consume_chunk_size(std::string_view input) {
  const size_t end = input.substr(0, kMaxChunkLine).find('\n');
  if (end == std::string_view::npos) {
    if (input.size() >= kMaxChunkLine) refuse(400, "a chunk's size line is too long");
    return 0;
  }
  const std::string_view line = input.substr(0, end);
  uint64_t size = 0;
  size_t digits = 0;
  while (digits < line.size() && hex_value(line[digits]) >= 0 && digits < 16) {
    size = size * 16 + static_cast<uint64_t>(hex_value(line[digits++]));
  }
  const std::string_view extension = line.substr(digits);
  const bool ends_right = !extension.empty() && extension.back() == '\r';
  if (digits == 0 || !ends_right || (extension.size() > 1 && extension[0] != ';') ||
      std::any_of(extension.begin(), extension.end() - 1, is_forbidden)) {
    refuse(400, "a chunk's size line is not hexadecimal digits and CR LF");
    return 0;
  }
  if (size > limits_.max_body_bytes - request_.body.size()) {
    refuse(413, fmt::format("the body is longer than {} bytes", limits_.max_body_bytes));
    return 0;
  }
  remaining_ = size;
  state_ = size == 0 ? State::trailer : State::chunk_data;
  return end + 1;
}

size_t RequestParser::consume_chunk_data(std::string_view input) {
  const size_t n = static_cast<size_t>(std::min<uint64_t>(remaining_, input.size()));
  request_.body.append(input.substr(0, n));
  remaining_ -= n;
  if (remaining_ == 0) state_ = State::chunk_end;
  return n;
}

size_t RequestParser::consume_chunk_end(std::string_view input) {
  if (input.substr(0, 2) != std::string_view("\r\n").substr(0, std::min<size_t>(input.size(), 2))) {
    refuse(400, "a chunk is longer than its size line says");
    return 0;
  }
  if (input.size() < 2) return 0;
  state_ = State::chunk_size;
  return 2;
}

size_t RequestParser::consume_trailer(std::string_view input) {
  const size_t end = input.find('\n');
  if (trailer_bytes_ + std::min(end, input.size()) > limits_.max_header_bytes) {
    refuse(431, fmt::format("the trailers are longer than {} bytes", limits_.max_header_bytes));
    return 0;
  }
  if (end == std::string_view::npos) return 0;
  const std::string_view line = input.substr(0, end);
  if (line.empty() || line.back() != '\r' ||
      std::any_of(line.begin(), line.end() - 1, is_forbidden)) {
    refuse(400, "a trailer holds a control character or half a line end");
    return 0;
  }
  trailer_bytes_ += end + 1;
  if (line.size() == 1) state_ = State::done;
  return end + 1;
}

}  // namespace strata::net
