#include "net/http_text.h"

#include <fmt/core.h>

#include <chrono>
#include <ctime>

#include "net/http_parser.h"

namespace strata::net {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return status < 400 ? "Status" : "Error";
  }
}

std::string format_http_date(int64_t seconds) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t time = static_cast<std::time_t>(seconds);
  std::tm t{};
  gmtime_r(&time, &t);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[t.tm_wday], t.tm_mday,
                     kMonths[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

std::string format_head(int status, const Headers& headers, const HeadOptions& options) {
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  for (const auto& [name, value] : headers) {
    out += name;
    out += ": ";
    for (const char c : value) {
      const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
      out += control ? ' ' : c;
    }
    out += "\r\n";
  }
  out += "Date: " + format_http_date(now) + "\r\n";
  if (options.chunked) out += "Transfer-Encoding: chunked\r\n";
  if (options.content_length) out += fmt::format("Content-Length: {}\r\n", *options.content_length);
  if (!options.keep_alive) {
    out += "Connection: close\r\n";
  } else if (options.http_1_0) {
    out += "Connection: keep-alive\r\n";
  }
  return out + "\r\n";
}

std::string_view find_header(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return {};
}

std::string_view Request::header(std::string_view name) const { return find_header(headers, name); }

bool Request::has_header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return true;
  }
  return false;
}

}  // namespace strata::net
