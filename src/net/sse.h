#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace strata::net {

// Server-sent events as the server writes them. Lines end in "\n" and events in "\n\n", comments
// too: some clients lose events when line ends are mixed.
inline constexpr std::string_view kSsePing = ": ping\n\n";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
// "data: TEXT\n\n"; each line of the text gets a data line of its own.
std::string sse_data(std::string_view text);
// "event: error\ndata: TEXT\n\n".
std::string sse_error(std::string_view text);

struct SseEvent {
  std::string event;  // "" is "message"
  std::string data;
};

// Reads events from bytes that arrive in pieces (WHATWG HTML, section 9.2.6): any line end,
// comments skipped, `id` and `retry` ignored, an event without its empty line at the end dropped.
class SseParser {
 public:
  using Callback = std::function<void(const SseEvent&)>;
  void feed(std::string_view bytes, const Callback& callback);

 private:
  void take_line(const Callback& callback);

  SseEvent event_;
  bool has_data_ = false;
  bool first_line_ = true;  // may begin with a BOM
  bool after_cr_ = false;   // a "\n" now belongs to the line before
  std::string line_;
};

}  // namespace strata::net
