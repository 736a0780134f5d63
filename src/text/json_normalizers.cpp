#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/charsmap.h"
#include "text/json_components.h"
#include "text/text_splits.h"
#include "text/unicode_normalizers.h"

namespace strata {
namespace {

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

std::vector<char> from_base64(const JsonPlace& place) {
  std::string_view text = place.string();
  if (text.size() % 4 != 0) place.wrong("base64");
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::vector<char> out;
  out.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const int digit = base64_digit(c);
    if (digit < 0) place.wrong("base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out.push_back(static_cast<char>(bits >> held & 0xFF));
    }
  }
  return out;
}

void add_bert(const JsonPlace& place, NormalizerList& list) {
  const bool lowercase = place.boolean("lowercase", true);
  if (place.boolean("clean_text", true)) list.push_back(clean_text_normalizer());
  if (place.boolean("handle_chinese_chars", true)) list.push_back(isolate_ideographs_normalizer());
  if (place.boolean("strip_accents", lowercase)) {  // null: as lowercase
    list.push_back(unicode_form_normalizer(UnicodeForm::nfd));
    list.push_back(strip_accents_normalizer(true));
  }
  if (lowercase) list.push_back(lowercase_normalizer());
}

void add_replace(const JsonPlace& place, NormalizerList& list) {
  const JsonPlace pattern = place.member("pattern");
  std::string content(place.string("content"));
  if (pattern.has("Regex")) {
    list.push_back(
        replace_matches_normalizer(regex_finder(pattern.string("Regex")), std::move(content)));
    return;
  }
  std::string from(pattern.string("String"));
  if (from.empty()) pattern.wrong("a pattern that is not empty");
  list.push_back(replace_normalizer(std::move(from), std::move(content)));
}

}  // namespace

void add_json_normalizers(const JsonPlace& place, NormalizerList& list) {
  if (place.is_null()) return;
  const std::string_view type = place.string("type");
  if (type == "Sequence") {
    place.member("normalizers").each([&](const JsonPlace& p) { add_json_normalizers(p, list); });
  } else if (type == "Replace") {
    add_replace(place, list);
  } else if (type == "Prepend") {
    list.push_back(prepend_normalizer(std::string(place.string("prepend"))));
  } else if (type == "NFC") {
    list.push_back(unicode_form_normalizer(UnicodeForm::nfc));
  } else if (type == "NFD") {
    list.push_back(unicode_form_normalizer(UnicodeForm::nfd));
  } else if (type == "NFKC") {
    list.push_back(unicode_form_normalizer(UnicodeForm::nfkc));
  } else if (type == "NFKD") {
    list.push_back(unicode_form_normalizer(UnicodeForm::nfkd));
  } else if (type == "Lowercase") {
    list.push_back(lowercase_normalizer());
  } else if (type == "Strip") {
    list.push_back(
        strip_normalizer(place.boolean("strip_left", true), place.boolean("strip_right", true)));
  } else if (type == "StripAccents") {
    list.push_back(strip_accents_normalizer(false));
  } else if (type == "Precompiled") {
    const JsonPlace map = place.member("precompiled_charsmap");
    list.push_back(precompiled_normalizer(Charsmap(from_base64(map), map.where)));
  } else if (type == "BertNormalizer") {
    add_bert(place, list);
  } else {
    place.unsupported("normalizer '" + std::string(type) + "'");
  }
}

}  // namespace strata
