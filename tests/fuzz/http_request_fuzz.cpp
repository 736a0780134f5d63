// Bytes as a client may send them: the parser must give the same verdict however they are torn,
// stay within its limits, and hand out only well-formed paths.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "net/http_parser.h"

namespace {

using strata::net::ParserLimits;
using strata::net::Request;
using strata::net::RequestParser;

constexpr ParserLimits kLimits{.max_header_bytes = 2048, .max_headers = 16, .max_body_bytes = 512};

void require(bool condition) {
  if (!condition) std::abort();
}

struct Verdict {
  int refused = 0;
  bool done = false;
  size_t used = 0;
  Request request;
};

Verdict parse(std::string_view text, size_t piece) {
  RequestParser parser(kLimits);
  std::string input;
  Verdict verdict;
  size_t fed = 0;
  while (fed < text.size() && !parser.done() && !parser.failed()) {
    const std::string_view part = text.substr(fed, piece);
    fed += part.size();
    input += part;
    const size_t used = parser.consume(input);
    require(used <= input.size());
    require(parser.body_bytes() <= kLimits.max_body_bytes);
    input.erase(0, used);
    // What a parser leaves waiting is what a connection has to keep.
    require(parser.done() || parser.failed() || input.size() <= kLimits.max_header_bytes);
    verdict.used += used;
  }
  verdict.refused = parser.refusal().status;
  verdict.done = parser.done();
  verdict.request = parser.take_request();
  return verdict;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Verdict whole = parse(text, std::string_view::npos);
  const size_t piece = size == 0 ? 1 : 1 + data[size - 1] % 7u;
  const Verdict torn = parse(text, piece);
  require(whole.refused == torn.refused && whole.done == torn.done);
  if (!whole.done) return 0;
  require(whole.used == torn.used);
  require(whole.request.method == torn.request.method && whole.request.path == torn.request.path);
  require(whole.request.query == torn.request.query && whole.request.body == torn.request.body);
  require(whole.request.headers == torn.request.headers);
  require(strata::is_valid_utf8(whole.request.path));
  require(whole.request.path.find('\0') == std::string::npos);
  require(whole.request.headers.size() <= kLimits.max_headers);
  return 0;
}
