#include "engine/answer_text.h"

#include <algorithm>
#include <utility>

namespace strata {

std::string StopMatcher::push(std::string_view piece) {
  if (stopped_) return {};
  if (stops_.empty()) return std::string(piece);
  for (char c : piece) {
    held_ += c;
    size_t longest = 0;
    for (const std::string& stop : stops_)
      if (held_.ends_with(stop)) longest = std::max(longest, stop.size());
    if (longest > 0) {
      held_.resize(held_.size() - longest);
      stopped_ = true;
      return std::exchange(held_, {});
    }
  }
  std::string out = held_.substr(0, held_.size() - held_length());
  held_.erase(0, out.size());
  return out;
}

// Bytes at the end of held_ that begin a stop string. held_ never grows past the longest stop
// string plus one piece, so this is cheap.
size_t StopMatcher::held_length() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(stop).substr(0, n)) {
        longest = n;
        break;
      }
    }
  }
  return longest;
}

std::string StopMatcher::finish() { return stopped_ ? std::string() : std::exchange(held_, {}); }

std::string AnswerText::finish() {
  std::string out = stops_.push(decoder_.finish());
  out += stops_.finish();
  return out;
}

}  // namespace strata
