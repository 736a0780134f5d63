#include "text/word_splitter.h"

#include "base/error.h"
#include "text/unicode_class.h"

namespace strata {
namespace {

constexpr uint8_t kWordOrSpace = kClassLetter | kClassNumber | kClassSpace;

// Walks whole characters; at the end bits() is 0 and at_end() true.
class Cursor {
 public:
  Cursor(const char* p, const char* end) : classes_(unicode_classes()), p_(p), end_(end) { look(); }
  bool at_end() const { return p_ == end_; }
  uint8_t bits() const { return step_.bits; }
  char32_t code_point() const { return step_.code_point; }
  const char* position() const { return p_; }
  bool is_line_end() const { return step_.code_point == '\r' || step_.code_point == '\n'; }
  bool is_symbol() const { return !at_end() && (step_.bits & kWordOrSpace) == 0; }
  void advance() {
    p_ += step_.length;
    look();
  }
  void skip_class(uint8_t bits) {
    while (step_.bits & bits) advance();
  }

 private:
  void look() { step_ = p_ == end_ ? ClassifiedStep{0, 0, 0} : classify_at(classes_, p_, end_); }

  const uint8_t* classes_;
  const char* p_;
  const char* end_;
  ClassifiedStep step_{};
};

// Lower case of the letters that contractions are made of. U+017F folds to s in Unicode, and so
// does it in the regular expression with (?i:).
char32_t fold(char32_t c) {
  if (c >= 'A' && c <= 'Z') return c + ('a' - 'A');
  return c == 0x17F ? U's' : c;
}

// Bytes of 's 't 're 've 'm 'll 'd at p, 0 when there is none.
template <bool kIgnoreCase>
size_t contraction_length(const char* p, const char* end) {
  if (*p != '\'' || end - p < 2) return 0;
  Cursor c(p + 1, end);
  const auto letter = [](char32_t code) { return kIgnoreCase ? fold(code) : code; };
  const char32_t first = letter(c.code_point());
  c.advance();
  const auto bytes = [&] { return static_cast<size_t>(c.position() - p); };
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return bytes();
  const char32_t second = c.at_end() ? 0 : letter(c.code_point());
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
      (first == 'l' && second == 'l')) {
    c.advance();
    return bytes();
  }
  return 0;
}

// \s+(?!\S)|\s+ at p, which is a white-space character: a run of several leaves its last character
// to the next word, unless the text ends (or, with kNumberEnds, a number follows).
template <bool kNumberEnds>
size_t space_run_length(const char* p, const char* end) {
  Cursor c(p, end);
  const char* last = p;
  int count = 0;
  for (; c.bits() & kClassSpace; ++count) {
    last = c.position();
    c.advance();
  }
  const bool ends = c.at_end() || (kNumberEnds && (c.bits() & kClassNumber));
  return static_cast<size_t>((ends || count == 1 ? c.position() : last) - p);
}

template <bool kSingleNumbers>
size_t gpt2_word(const char* p, const char* end) {
  if (const size_t n = contraction_length<false>(p, end)) return n;
  Cursor c(p, end);
  if (*p == ' ') c.advance();
  const uint8_t bits = c.bits();
  if (bits & kClassLetter) {
    c.skip_class(kClassLetter);
  } else if (bits & kClassNumber) {
    if (kSingleNumbers) {
      if (*p != ' ') c.advance();  // with a space before it, the space is a word of its own
    } else {
      c.skip_class(kClassNumber);
    }
  } else if (c.is_symbol()) {
    while (c.is_symbol()) c.advance();
  } else {
    return space_run_length<kSingleNumbers>(p, end);
  }
  return static_cast<size_t>(c.position() - p);
}

template <int kMostNumbers>
size_t llama3_word(const char* p, const char* end) {
  if (const size_t n = contraction_length<true>(p, end)) return n;
  Cursor c(p, end);
  const auto bytes = [&] { return static_cast<size_t>(c.position() - p); };
  // [^\r\n\p{L}\p{N}]?\p{L}+
  if (c.bits() & kClassLetter) {
    c.skip_class(kClassLetter);
    return bytes();
  }
  if (c.bits() & kClassNumber) {
    for (int i = 0; i < kMostNumbers && (c.bits() & kClassNumber); ++i) c.advance();
    return bytes();
  }
  if (!c.is_line_end()) {
    Cursor next = c;
    next.advance();
    if (next.bits() & kClassLetter) {
      next.skip_class(kClassLetter);
      return static_cast<size_t>(next.position() - p);
    }
  }
  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  Cursor symbols = c;
  if (*p == ' ') symbols.advance();
  if (symbols.is_symbol()) {
    while (symbols.is_symbol()) symbols.advance();
    while (symbols.is_line_end()) symbols.advance();
    return static_cast<size_t>(symbols.position() - p);
  }
  // \s*[\r\n]+ reaches to the last line end of the run of white space.
  const char* line_end = nullptr;
  while (c.bits() & kClassSpace) {
    const bool ends_line = c.is_line_end();
    c.advance();
    if (ends_line) line_end = c.position();
  }
  if (line_end != nullptr) return static_cast<size_t>(line_end - p);
  return space_run_length<false>(p, end);
}

}  // namespace

WordLength word_length_function(WordPattern pattern) {
  switch (pattern) {
    case WordPattern::gpt2:
      return gpt2_word<false>;
    case WordPattern::smollm:
      return gpt2_word<true>;
    case WordPattern::llama3:
      return llama3_word<3>;
    case WordPattern::qwen2:
      return llama3_word<1>;
  }
  STRATA_ASSERT(false);
  return nullptr;
}

}  // namespace strata
