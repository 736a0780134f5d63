#include "net/sse.h"

#include <algorithm>

namespace strata::net {

std::string sse_data(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 8);
  for (;;) {
    const size_t end = text.find_first_of("\r\n");
    out += "data: ";
    out += text.substr(0, end);
    out += '\n';
    if (end == std::string_view::npos) break;
    const bool pair = text.substr(end, 2) == "\r\n";
    text.remove_prefix(end + (pair ? 2 : 1));
  }
  return out + "\n";
}

std::string sse_error(std::string_view text) { return "event: error\n" + sse_data(text); }

void SseParser::feed(std::string_view bytes, const Callback& callback) {
  while (!bytes.empty()) {
    if (after_cr_ && bytes[0] == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    if (end == std::string_view::npos) return;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    take_line(callback);
    line_.clear();
  }
}

void SseParser::take_line(const Callback& callback) {
  std::string_view line = line_;
  if (first_line_ && line.substr(0, 3) == "\xEF\xBB\xBF") line.remove_prefix(3);
  first_line_ = false;
  if (line.empty()) {
    if (has_data_) callback(event_);
    event_ = {};
    has_data_ = false;
    return;
  }
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = line.substr(0, colon);
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (!value.empty() && value[0] == ' ') value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (field == "event") {
    event_.event = value;
  }
}

}  // namespace strata::net
