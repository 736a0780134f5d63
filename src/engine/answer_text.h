#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace strata {

// Finds the first of several strings in a text that arrives in pieces, and lets out only what can
// no longer be part of one.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Appends `piece`; returns the text that is certain now. Once stopped() nothing more comes: the
  // match and what follows it are dropped. Of matches that end at the same byte the longest counts.
  std::string push(std::string_view piece);
  // The end of the text: what was held back in case a stop string was under way.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  size_t held_length() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

// The text of one choice as it is generated: whole characters, cut exactly at a stop string.
class AnswerText {
 public:
  AnswerText(const Tokenizer& tokenizer, std::vector<std::string> stops, bool show_control)
      : decoder_(tokenizer, show_control), stops_(std::move(stops)) {}
  std::string push(TokenId id) { return stops_.push(decoder_.push(id)); }
  std::string finish();
  bool stopped() const { return stops_.stopped(); }

 private:
  StreamDecoder decoder_;
  StopMatcher stops_;
};

}  // namespace strata
