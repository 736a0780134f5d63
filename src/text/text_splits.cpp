#include "text/text_splits.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace strata {
namespace {

class StringFinder : public SpanFinder {
 public:
  explicit StringFinder(std::string text) : text_(std::move(text)) {
    STRATA_ASSERT(!text_.empty());
  }
  void find(std::string_view text, std::vector<Span>& spans) const override {
    size_t at = 0;
    for (size_t hit; (hit = text.find(text_, at)) != std::string_view::npos;) {
      if (hit > at) spans.push_back({at, hit, false});
      at = hit + text_.size();
      spans.push_back({hit, at, true});
    }
    if (at < text.size()) spans.push_back({at, text.size(), false});
  }

 private:
  std::string text_;
};

class CharacterFinder : public SpanFinder {
 public:
  explicit CharacterFinder(bool (*is_match)(char32_t)) : is_match_(is_match) {}
  void find(std::string_view text, std::vector<Span>& spans) const override {
    size_t plain = 0;
    for (size_t at = 0; at < text.size();) {
      const Utf8Step step = decode_utf8(text.substr(at));
      const size_t end = at + static_cast<size_t>(step.length);
      if (step.valid && is_match_(step.code_point)) {
        if (at > plain) spans.push_back({plain, at, false});
        spans.push_back({at, end, true});
        plain = end;
      }
      at = end;
    }
    if (plain < text.size()) spans.push_back({plain, text.size(), false});
  }

 private:
  bool (*is_match_)(char32_t);
};

}  // namespace

std::unique_ptr<SpanFinder> string_finder(std::string text) {
  return std::make_unique<StringFinder>(std::move(text));
}
std::unique_ptr<SpanFinder> character_finder(bool (*is_match)(char32_t)) {
  return std::make_unique<CharacterFinder>(is_match);
}

void split_by(std::string_view text, const std::vector<Span>& spans, SplitBehavior behavior,
              std::vector<std::string_view>& words) {
  const auto word = [&](size_t begin, size_t end) {
    words.push_back(text.substr(begin, end - begin));
  };
  switch (behavior) {
    case SplitBehavior::removed:
      for (const Span& s : spans)
        if (!s.is_match) word(s.begin, s.end);
      return;
    case SplitBehavior::isolated:
      for (const Span& s : spans) word(s.begin, s.end);
      return;
    case SplitBehavior::contiguous:
      for (size_t i = 0; i < spans.size();) {
        size_t j = i + 1;
        while (j < spans.size() && spans[j].is_match == spans[i].is_match) ++j;
        word(spans[i].begin, spans[j - 1].end);
        i = j;
      }
      return;
    case SplitBehavior::merged_with_previous:
      // A match joins the word before it, but only the first match of several in a row.
      for (size_t i = 0; i < spans.size(); ++i) {
        const size_t begin = spans[i].begin;
        if (!spans[i].is_match && i + 1 < spans.size() && spans[i + 1].is_match) ++i;
        word(begin, spans[i].end);
      }
      return;
    case SplitBehavior::merged_with_next:
      // The last match of several in a row joins the word behind it.
      for (size_t i = 0; i < spans.size(); ++i) {
        const size_t begin = spans[i].begin;
        if (spans[i].is_match && i + 1 < spans.size() && !spans[i + 1].is_match) ++i;
        word(begin, spans[i].end);
      }
      return;
  }
}

}  // namespace strata
