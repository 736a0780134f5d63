#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

// What a splitting pre-tokenizer of tokenizer.json does with the matches of its pattern.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct Span {
  size_t begin, end;
  bool is_match;
};

// Covers a text with spans that are matches or lie between them.
class SpanFinder {
 public:
  virtual ~SpanFinder() = default;
  // Appends spans that cover text without gap, in order, none empty.
  virtual void find(std::string_view text, std::vector<Span>& spans) const = 0;
};

std::unique_ptr<SpanFinder> string_finder(std::string text);
// Every character for which the predicate holds is a match of its own.
std::unique_ptr<SpanFinder> character_finder(bool (*is_match)(char32_t));
// A regular expression in Oniguruma's dialect as far as PCRE2 agrees with it; \s is White_Space.
// Throws Error{unsupported} with PCRE2's message for a pattern it does not take.
std::unique_ptr<SpanFinder> regex_finder(std::string_view pattern);

// Appends the words that `behavior` makes of the spans of `text`.
void split_by(std::string_view text, const std::vector<Span>& spans, SplitBehavior behavior,
              std::vector<std::string_view>& words);

}  // namespace strata
