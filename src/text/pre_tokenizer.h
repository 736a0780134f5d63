#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/space_borders.h"
#include "text/text_splits.h"
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
std::unique_ptr<PreTokenizer> split_pre_tokenizer(std::unique_ptr<SpanFinder> finder,
                                                  SplitBehavior behavior, bool invert);
std::unique_ptr<PreTokenizer> space_border_pre_tokenizer(SpaceBorders borders);
// A space before each word that does not begin with one (ByteLevel with add_prefix_space).
std::unique_ptr<PreTokenizer> prefix_space_pre_tokenizer();

enum class MetaspacePrepend { always, first, never };
// Spaces become `mark`; one is put before a word that has none in front (first: only before the
// word that begins the text); split: cut before each mark.
std::unique_ptr<PreTokenizer> metaspace_pre_tokenizer(std::string mark, MetaspacePrepend prepend,
                                                      bool split);

// Characters for split_pre_tokenizer.
bool is_white_space(char32_t c);
bool is_number(char32_t c);
bool is_punctuation(char32_t c);  // P* and ASCII's symbols
// \w of the reference's regular expressions.
bool is_word_character(char32_t c);
// Runs of \w, runs of what is neither \w nor white space: `Whitespace` of tokenizer.json.
std::unique_ptr<SpanFinder> word_run_finder();

}  // namespace strata
