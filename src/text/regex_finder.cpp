#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/text_splits.h"

namespace strata {
namespace {

// White_Space, and what is not, as the inside of a character class. PCRE2's own \s takes U+180E
// too.
constexpr std::string_view kSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";
constexpr std::string_view kNoSpace =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"
    "\\x{3001}-\\x{d7ff}\\x{e000}-\\x{10ffff}";

// \s and \S spelled out.
std::string with_explicit_spaces(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char kind = pattern[++i];
      if (kind != 's' && kind != 'S') {
        out += c;
        out += kind;
        continue;
      }
      if (!in_class) out += '[';
      out += kind == 's' ? kSpace : kNoSpace;
      if (!in_class) out += ']';
      continue;
    }
    if (c == '[' && !in_class) {
      in_class = true;
      out += c;
      // A bracket that comes first is a member.
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];
      continue;
    }
    if (c == '[' && i + 1 < pattern.size() && pattern[i + 1] != ':')
      fail(ErrorCode::unsupported, "tokenizer: regular expression '{}': nested character classes",
           pattern);
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  if (pcre2_get_error_message(code, text, sizeof text) < 0) return "error " + std::to_string(code);
  return reinterpret_cast<const char*>(text);
}

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};

class RegexFinder : public SpanFinder {
 public:
  explicit RegexFinder(std::string_view pattern) : pattern_(pattern) {
    const std::string changed = with_explicit_spaces(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(changed.data()), changed.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                              nullptr));
    if (code_ == nullptr)
      fail(ErrorCode::unsupported, "tokenizer: regular expression '{}': {}", pattern,
           message_of(error));
    // Without it pcre2_match interprets: slower, the same matches.
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
  }

  void find(std::string_view text, std::vector<Span>& spans) const override {
    // PCRE2 wants well-formed text: an ill-formed byte looks like U+0001 to it, a symbol.
    std::string copy;
    if (!is_valid_utf8(text)) {
      copy = text;
      for (size_t at = 0; at < copy.size();) {
        const Utf8Step step = decode_utf8(std::string_view(copy).substr(at));
        if (!step.valid) copy.replace(at, step.length, static_cast<size_t>(step.length), '\x01');
        at += static_cast<size_t>(step.length);
      }
    }
    const std::string_view subject = copy.empty() ? text : std::string_view(copy);
    const std::unique_ptr<pcre2_match_data, Free> match(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    const std::unique_ptr<pcre2_match_context, Free> context(pcre2_match_context_create(nullptr));
    const std::unique_ptr<pcre2_jit_stack, Free> stack(
        pcre2_jit_stack_create(32 * 1024, 8 * 1024 * 1024, nullptr));
    if (match == nullptr || context == nullptr || stack == nullptr)
      fail(ErrorCode::resource_exhausted, "tokenizer: no memory to match '{}'", pattern_);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    size_t at = 0;
    for (size_t from = 0; from < subject.size();) {
      const int rc =
          pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(),
                      from, PCRE2_NO_UTF_CHECK, match.get(), context.get());
      if (rc == PCRE2_ERROR_NOMATCH) break;
      if (rc < 0)
        fail(ErrorCode::invalid_argument, "tokenizer: matching '{}' gave up at byte {}: {}",
             pattern_, from, message_of(rc));
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
      if (ends[1] <= ends[0] || ends[0] < at) {  // empty: go on behind the next character
        const Utf8Step step = decode_utf8(subject.substr(from));
        from += static_cast<size_t>(step.length);
        continue;
      }
      if (ends[0] > at) spans.push_back({at, ends[0], false});
      spans.push_back({ends[0], ends[1], true});
      at = from = ends[1];
    }
    if (at < subject.size()) spans.push_back({at, subject.size(), false});
  }

 private:
  std::string pattern_;
  std::unique_ptr<pcre2_code, Free> code_;
};

}  // namespace

std::unique_ptr<SpanFinder> regex_finder(std::string_view pattern) {
  return std::make_unique<RegexFinder>(pattern);
}

}  // namespace strata
