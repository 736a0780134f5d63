#include "text/unicode_normalizers.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode_class.h"

namespace strata {
namespace {

// Calls on_text for each well-formed run and on_bytes for each ill-formed part.
template <typename Text, typename Bytes>
void for_each_run(std::string_view text, Text&& on_text, Bytes&& on_bytes) {
  size_t begin = 0;
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = decode_utf8(text.substr(at));
    const auto length = static_cast<size_t>(step.length);
    if (!step.valid) {
      if (at > begin) on_text(text.substr(begin, at - begin));
      on_bytes(text.substr(at, length));
      begin = at + length;
    }
    at += length;
  }
  if (at > begin) on_text(text.substr(begin, at - begin));
}

// Rewrites a text character by character; `change(code point, out)` appends what stands for it.
template <typename Change>
std::string change_characters(std::string_view text, Change&& change) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = decode_utf8(text);
    const auto length = static_cast<size_t>(step.length);
    if (step.valid)
      change(step.code_point, out);
    else
      out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

class UnicodeFormNormalizer : public Normalizer {
 public:
  explicit UnicodeFormNormalizer(UnicodeForm form) {
    UErrorCode status = U_ZERO_ERROR;
    switch (form) {
      case UnicodeForm::nfc:
        normalizer_ = icu::Normalizer2::getNFCInstance(status);
        break;
      case UnicodeForm::nfd:
        normalizer_ = icu::Normalizer2::getNFDInstance(status);
        break;
      case UnicodeForm::nfkc:
        normalizer_ = icu::Normalizer2::getNFKCInstance(status);
        break;
      case UnicodeForm::nfkd:
        normalizer_ = icu::Normalizer2::getNFKDInstance(status);
        break;
    }
    check(status);
  }
  void apply(std::string& text) const override {
    std::string out;
    for_each_run(
        text,
        [&](std::string_view run) {
          UErrorCode status = U_ZERO_ERROR;
          icu::StringByteSink<std::string> sink(&out);
          normalizer_->normalizeUTF8(0,
                                     icu::StringPiece(run.data(), static_cast<int32_t>(run.size())),
                                     sink, nullptr, status);
          check(status);
        },
        [&](std::string_view bytes) { out += bytes; });
    text = std::move(out);
  }

 private:
  static void check(UErrorCode status) {
    if (U_FAILURE(status))
      fail(ErrorCode::internal, "tokenizer: Unicode normalization: {}", u_errorName(status));
  }
  const icu::Normalizer2* normalizer_ = nullptr;
};

class CharacterNormalizer : public Normalizer {
 public:
  using Change = void (*)(char32_t, std::string&);
  explicit CharacterNormalizer(Change change) : change_(change) {}
  void apply(std::string& text) const override { text = change_characters(text, change_); }

 private:
  Change change_;
};

void lower(char32_t c, std::string& out) {
  if (c == 0x130) {  // the one character whose lower case is two
    out += "i\u0307";
    return;
  }
  append_utf8(out, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
}

template <uint8_t kBits>
void drop_class(char32_t c, std::string& out) {
  if ((unicode_classes()[c] & kBits) == 0) append_utf8(out, c);
}

void clean(char32_t c, std::string& out) {
  if (c == '\t' || c == '\n' || c == '\r' || (unicode_classes()[c] & kClassSpace)) {
    out += ' ';
  } else if (c != 0 && c != 0xFFFD && (unicode_classes()[c] & kClassControl) == 0) {
    append_utf8(out, c);
  }
}

void isolate_ideograph(char32_t c, std::string& out) {
  // BERT's ranges, the gap before U+2B920 included.
  const bool ideograph = (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
                         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
                         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
                         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
  if (ideograph) out += ' ';
  append_utf8(out, c);
  if (ideograph) out += ' ';
}

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(std::string& text) const override {
    size_t begin = text.size();
    size_t end = 0;
    for (size_t at = 0; at < text.size();) {
      const Utf8Step step = decode_utf8(std::string_view(text).substr(at));
      const size_t next = at + static_cast<size_t>(step.length);
      if (!step.valid || (unicode_classes()[step.code_point] & kClassSpace) == 0) {
        begin = std::min(begin, at);
        end = next;
      }
      at = next;
    }
    if (!left_) begin = 0;
    if (!right_) end = text.size();
    text = begin < end ? text.substr(begin, end - begin) : std::string();
  }

 private:
  bool left_, right_;
};

class ReplaceMatches : public Normalizer {
 public:
  ReplaceMatches(std::unique_ptr<SpanFinder> finder, std::string to)
      : finder_(std::move(finder)), to_(std::move(to)) {}
  void apply(std::string& text) const override {
    std::vector<Span> spans;
    finder_->find(text, spans);
    std::string out;
    for (const Span& s : spans)
      out += s.is_match ? std::string_view(to_)
                        : std::string_view(text).substr(s.begin, s.end - s.begin);
    text = std::move(out);
  }

 private:
  std::unique_ptr<SpanFinder> finder_;
  std::string to_;
};

}  // namespace

std::unique_ptr<Normalizer> unicode_form_normalizer(UnicodeForm form) {
  return std::make_unique<UnicodeFormNormalizer>(form);
}
std::unique_ptr<Normalizer> lowercase_normalizer() {
  return std::make_unique<CharacterNormalizer>(lower);
}
std::unique_ptr<Normalizer> strip_normalizer(bool left, bool right) {
  return std::make_unique<Strip>(left, right);
}
std::unique_ptr<Normalizer> strip_accents_normalizer(bool only_nonspacing) {
  return std::make_unique<CharacterNormalizer>(only_nonspacing ? drop_class<kClassNonspacing>
                                                               : drop_class<kClassMark>);
}
std::unique_ptr<Normalizer> replace_matches_normalizer(std::unique_ptr<SpanFinder> finder,
                                                       std::string to) {
  return std::make_unique<ReplaceMatches>(std::move(finder), std::move(to));
}
std::unique_ptr<Normalizer> clean_text_normalizer() {
  return std::make_unique<CharacterNormalizer>(clean);
}
std::unique_ptr<Normalizer> isolate_ideographs_normalizer() {
  return std::make_unique<CharacterNormalizer>(isolate_ideograph);
}

}  // namespace strata
