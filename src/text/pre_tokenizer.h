#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/word_splitter.h"

namespace strata {

// A text on its way to the model: the words so far. They point into the caller's text or into
// `storage`, which keeps what a step had to change.
struct WordList {
  std::vector<std::string_view> words;
  std::deque<std::string> storage;
  bool at_text_start = false;  // words[0] begins the whole text, no token stands before it
};

// Cuts words further, or changes them. Immutable. Never leaves an empty word.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(WordList& list) const = 0;
  // The hand-written splitter this step is, so that a lone one can run without a list.
  virtual std::optional<WordPattern> pattern() const { return std::nullopt; }
};
using PreTokenizerList = std::vector<std::unique_ptr<PreTokenizer>>;

std::unique_ptr<PreTokenizer> pattern_pre_tokenizer(WordPattern pattern);

}  // namespace strata
