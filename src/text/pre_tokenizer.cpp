#include "text/pre_tokenizer.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/normalizer.h"
#include "text/unicode_class.h"

namespace strata {
namespace {

class Pattern : public PreTokenizer {
 public:
  explicit Pattern(WordPattern pattern)
      : pattern_(pattern), word_length_(word_length_function(pattern)) {}
  std::optional<WordPattern> pattern() const override { return pattern_; }
  void apply(WordList& list) const override {
    std::vector<std::string_view> out;
    for (std::string_view word : list.words) {
      while (!word.empty()) {
        const size_t n = word_length_(word.data(), word.data() + word.size());
        out.push_back(word.substr(0, n));
        word.remove_prefix(n);
      }
    }
    list.words = std::move(out);
  }

 private:
  WordPattern pattern_;
  WordLength word_length_;
};

class Split : public PreTokenizer {
 public:
  Split(std::unique_ptr<SpanFinder> finder, SplitBehavior behavior, bool invert)
      : finder_(std::move(finder)), behavior_(behavior), invert_(invert) {}
  void apply(WordList& list) const override {
    std::vector<std::string_view> out;
    std::vector<Span> spans;
    for (const std::string_view word : list.words) {
      spans.clear();
      finder_->find(word, spans);
      if (invert_)
        for (Span& s : spans) s.is_match = !s.is_match;
      split_by(word, spans, behavior_, out);
    }
    list.words = std::move(out);
  }

 private:
  std::unique_ptr<SpanFinder> finder_;
  SplitBehavior behavior_;
  bool invert_;
};

class SpaceBorderSplit : public PreTokenizer {
 public:
  explicit SpaceBorderSplit(SpaceBorders borders) : borders_(borders) {
    STRATA_ASSERT(borders_.usable());
  }
  void apply(WordList& list) const override {
    std::vector<std::string_view> out;
    for (std::string_view word : list.words) {
      while (!word.empty()) {
        const size_t n = borders_.word_length(word.data(), word.data() + word.size());
        out.push_back(word.substr(0, n));
        word.remove_prefix(n);
      }
    }
    list.words = std::move(out);
  }

 private:
  SpaceBorders borders_;
};

class PrefixSpace : public PreTokenizer {
 public:
  void apply(WordList& list) const override {
    for (std::string_view& word : list.words) {
      if (word[0] == ' ') continue;
      list.storage.emplace_back(1, ' ');
      list.storage.back() += word;
      word = list.storage.back();
    }
  }
};

class Metaspace : public PreTokenizer {
 public:
  Metaspace(std::string mark, MetaspacePrepend prepend, bool split)
      : mark_(std::move(mark)), prepend_(prepend), split_(split) {
    STRATA_ASSERT(!mark_.empty());
  }
  void apply(WordList& list) const override {
    std::vector<std::string_view> out;
    bool first = list.at_text_start;
    for (const std::string_view word : list.words) {
      std::string changed = replace_all(word, " ", mark_);
      const bool wanted =
          prepend_ == MetaspacePrepend::always || (prepend_ == MetaspacePrepend::first && first);
      if (wanted && changed.compare(0, mark_.size(), mark_) != 0) changed.insert(0, mark_);
      first = false;
      list.storage.push_back(std::move(changed));
      const std::string_view text = list.storage.back();
      if (!split_) {
        out.push_back(text);
        continue;
      }
      for (size_t begin = 0; begin < text.size();) {
        const bool at_mark = text.compare(begin, mark_.size(), mark_) == 0;
        const size_t end =
            std::min(text.find(mark_, begin + (at_mark ? mark_.size() : 0)), text.size());
        out.push_back(text.substr(begin, end - begin));
        begin = end;
      }
    }
    list.words = std::move(out);
  }

 private:
  std::string mark_;
  MetaspacePrepend prepend_;
  bool split_;
};

class WordRunFinder : public SpanFinder {
 public:
  void find(std::string_view text, std::vector<Span>& spans) const override {
    enum class Kind { space, word, other };
    const auto kind_of = [](const Utf8Step& s) {
      if (!s.valid) return Kind::other;
      if (is_white_space(s.code_point)) return Kind::space;
      return is_word_character(s.code_point) ? Kind::word : Kind::other;
    };
    for (size_t begin = 0; begin < text.size();) {
      const Utf8Step first = decode_utf8(text.substr(begin));
      size_t end = begin + static_cast<size_t>(first.length);
      while (end < text.size()) {
        const Utf8Step next = decode_utf8(text.substr(end));
        if (kind_of(next) != kind_of(first)) break;
        end += static_cast<size_t>(next.length);
      }
      spans.push_back({begin, end, kind_of(first) != Kind::space});
      begin = end;
    }
  }
};

}  // namespace

bool is_white_space(char32_t c) { return (unicode_classes()[c] & kClassSpace) != 0; }
bool is_number(char32_t c) { return (unicode_classes()[c] & kClassNumber) != 0; }
bool is_punctuation(char32_t c) {
  const bool ascii_symbol = c < 0x80 && (unicode_classes()[c] & kClassSymbol) != 0;
  return ascii_symbol || (unicode_classes()[c] & kClassPunctuation) != 0;
}
bool is_word_character(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  return u_isUAlphabetic(code) ||
         (U_MASK(u_charType(code)) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) || c == 0x200C ||
         c == 0x200D;
}

std::unique_ptr<SpanFinder> word_run_finder() { return std::make_unique<WordRunFinder>(); }
std::unique_ptr<PreTokenizer> split_pre_tokenizer(std::unique_ptr<SpanFinder> finder,
                                                  SplitBehavior behavior, bool invert) {
  return std::make_unique<Split>(std::move(finder), behavior, invert);
}
std::unique_ptr<PreTokenizer> space_border_pre_tokenizer(SpaceBorders borders) {
  return std::make_unique<SpaceBorderSplit>(borders);
}
std::unique_ptr<PreTokenizer> prefix_space_pre_tokenizer() {
  return std::make_unique<PrefixSpace>();
}
std::unique_ptr<PreTokenizer> metaspace_pre_tokenizer(std::string mark, MetaspacePrepend prepend,
                                                      bool split) {
  return std::make_unique<Metaspace>(std::move(mark), prepend, split);
}

std::unique_ptr<PreTokenizer> pattern_pre_tokenizer(WordPattern pattern) {
  return std::make_unique<Pattern>(pattern);
}

}  // namespace strata
