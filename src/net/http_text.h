#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_server.h"

namespace strata::net {

std::string_view reason_phrase(int status);

struct HeadOptions {
  bool http_1_0 = false;  // the client speaks HTTP/1.0
  bool keep_alive = true;
  bool chunked = false;
  std::optional<size_t> content_length = {};
};
// Status line and headers with Date, Connection, Content-Length or Transfer-Encoding, and the empty
// line. Control characters in values become blanks: a value may quote what a client sent.
std::string format_head(int status, const Headers& headers, const HeadOptions& options);

// "Sun, 06 Nov 1994 08:49:37 GMT"; seconds since 1970.
std::string format_http_date(int64_t seconds);

}  // namespace strata::net
