#include <unicode/brkiter.h>
#include <unicode/utext.h>

#include <memory>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode_normalizers.h"

namespace strata {
namespace {

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {}

  void apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size());
    UErrorCode status = U_ZERO_ERROR;
    const std::unique_ptr<icu::BreakIterator> graphemes(
        icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
    UText utext = UTEXT_INITIALIZER;
    utext_openUTF8(&utext, text.data(), static_cast<int64_t>(text.size()), &status);
    if (U_SUCCESS(status)) graphemes->setText(&utext, status);
    if (U_FAILURE(status)) {
      utext_close(&utext);
      fail(ErrorCode::internal, "tokenizer: grapheme borders: {}", u_errorName(status));
    }
    int32_t begin = graphemes->first();
    for (int32_t end; (end = graphemes->next()) != icu::BreakIterator::DONE; begin = end)
      append_grapheme(std::string_view(text).substr(static_cast<size_t>(begin),
                                                    static_cast<size_t>(end - begin)),
                      out);
    utext_close(&utext);
    text = std::move(out);
  }

 private:
  void append_grapheme(std::string_view grapheme, std::string& out) const {
    constexpr size_t kLongestLookedUpWhole = 5;  // the reference's limit, in bytes
    if (grapheme.size() <= kLongestLookedUpWhole && append_replacement(grapheme, out)) return;
    while (!grapheme.empty()) {
      const Utf8Step step = decode_utf8(grapheme);
      const std::string_view character = grapheme.substr(0, static_cast<size_t>(step.length));
      if (!append_replacement(character, out)) out += character;
      grapheme.remove_prefix(character.size());
    }
  }
  bool append_replacement(std::string_view text, std::string& out) const {
    const Charsmap::Hit hit = map_.shortest_prefix(text);
    if (hit.length == 0) return false;
    out += hit.replacement;
    return true;
  }

  Charsmap map_;
};

class SentencePiece : public Normalizer {
 public:
  SentencePiece(Charsmap map, const SentencePieceRules& rules)
      : map_(std::move(map)), rules_(rules) {}

  void apply(std::string& text) const override {
    constexpr std::string_view kSpaceMark = "\u2581";
    std::string out;
    out.reserve(text.size() * 2);
    bool prefixed = false;
    bool in_word = false;
    const auto append = [&](std::string_view bytes) {
      for (const char c : bytes) {
        if (c == ' ') {
          in_word = false;
          if (!rules_.remove_extra_whitespaces) out += kSpaceMark;
          continue;
        }
        if (!in_word) {
          in_word = true;
          if ((rules_.add_space_prefix && !prefixed) || rules_.remove_extra_whitespaces) {
            out += kSpaceMark;
            prefixed = true;
          }
        }
        out += c;
      }
    };
    std::string_view rest = text;
    while (!rest.empty()) {
      const Charsmap::Hit hit = map_.longest_prefix(rest);
      if (hit.length > 0) {
        append(hit.replacement);
        rest.remove_prefix(hit.length);
        continue;
      }
      const Utf8Step step = decode_utf8(rest);
      const size_t length = step.valid ? static_cast<size_t>(step.length) : 1;
      append(step.valid ? rest.substr(0, length) : std::string_view("\uFFFD"));
      rest.remove_prefix(length);
    }
    text = std::move(out);
  }

 private:
  Charsmap map_;
  SentencePieceRules rules_;
};

}  // namespace

std::unique_ptr<Normalizer> precompiled_normalizer(Charsmap map) {
  return std::make_unique<Precompiled>(std::move(map));
}
std::unique_ptr<Normalizer> sentencepiece_normalizer(Charsmap map,
                                                     const SentencePieceRules& rules) {
  return std::make_unique<SentencePiece>(std::move(map), rules);
}

}  // namespace strata
