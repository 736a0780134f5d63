#include "text/jinja/unicode.h"

#include <unicode/ucasemap.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"

namespace strata::jinja {
namespace {

const UCaseMap* case_map() {
  struct Close {
    void operator()(UCaseMap* map) const { ucasemap_close(map); }
  };
  static const std::unique_ptr<UCaseMap, Close> map = [] {
    UErrorCode status = U_ZERO_ERROR;
    std::unique_ptr<UCaseMap, Close> opened(ucasemap_open("", 0, &status));
    if (U_FAILURE(status))
      fail(ErrorCode::internal, "chat template: ICU case mapping: {}", u_errorName(status));
    return opened;
  }();
  return map.get();
}

using CaseFunction = int32_t (*)(const UCaseMap*, char*, int32_t, const char*, int32_t,
                                 UErrorCode*);

std::string map_case(CaseFunction function, std::string_view text) {
  std::string out(text.size() + 64, '\0');
  UErrorCode status = U_ZERO_ERROR;
  int32_t size = function(case_map(), out.data(), static_cast<int32_t>(out.size()), text.data(),
                          static_cast<int32_t>(text.size()), &status);
  if (status == U_BUFFER_OVERFLOW_ERROR) {
    out.resize(static_cast<size_t>(size) + 1);
    status = U_ZERO_ERROR;
    size = function(case_map(), out.data(), static_cast<int32_t>(out.size()), text.data(),
                    static_cast<int32_t>(text.size()), &status);
  }
  if (U_FAILURE(status)) {
    fail(ErrorCode::invalid_argument, "chat template: case mapping: {}", u_errorName(status));
  }
  out.resize(static_cast<size_t>(size));
  return out;
}

std::string title_of(char32_t c, std::string_view bytes) {
  const auto title = static_cast<char32_t>(u_totitle(static_cast<UChar32>(c)));
  if (title != c) {
    std::string out;
    append_utf8(out, title);
    return out;
  }
  // Characters whose titlecase is more than one (ß to Ss): upper case, tail lowered.
  std::string upper = map_case(ucasemap_utf8ToUpper, bytes);
  const size_t head = utf8_length(upper[0]);
  if (upper.size() == head || upper == bytes) return upper == bytes ? std::string(bytes) : upper;
  return upper.substr(0, head) + map_case(ucasemap_utf8ToLower, upper.substr(head));
}

bool is_cased(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASED); }

template <typename Visit>
void for_each_code_point(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const Utf8Step step = decode_utf8(text);
    visit(step.code_point, text.substr(0, static_cast<size_t>(step.length)));
    text.remove_prefix(static_cast<size_t>(step.length));
  }
}

bool in_class(char32_t code_point, CharacterClass which) {
  const auto c = static_cast<UChar32>(code_point);
  const auto numeric_type = u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE);
  switch (which) {
    case CharacterClass::alpha:
      return u_isalpha(c);
    case CharacterClass::alnum:
      return u_isalpha(c) || numeric_type != U_NT_NONE;
    case CharacterClass::digit:
      return numeric_type == U_NT_DIGIT || numeric_type == U_NT_DECIMAL;
    case CharacterClass::decimal:
      return numeric_type == U_NT_DECIMAL;
    case CharacterClass::numeric:
      return numeric_type != U_NT_NONE;
    case CharacterClass::space:
      return is_python_space(code_point);
    case CharacterClass::printable:
      return is_printable(code_point);
  }
  return false;
}

}  // namespace

bool is_python_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const auto mask = U_GET_GC_MASK(static_cast<UChar32>(c));
  return (mask & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

bool is_identifier_start(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_XID_START);
}

bool is_identifier_part(char32_t c) {
  if (c < 0x80) return is_identifier_start(c) || (c >= '0' && c <= '9');
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_XID_CONTINUE);
}

bool is_word_character(char32_t c) { return c == '_' || in_class(c, CharacterClass::alnum); }

std::string to_upper(std::string_view text) { return map_case(ucasemap_utf8ToUpper, text); }
std::string to_lower(std::string_view text) { return map_case(ucasemap_utf8ToLower, text); }
std::string to_casefold(std::string_view text) { return map_case(ucasemap_utf8FoldCase, text); }

std::string to_swapcase(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](char32_t c, std::string_view bytes) {
    if (u_isUUppercase(static_cast<UChar32>(c))) {
      out += to_lower(bytes);
    } else if (u_isULowercase(static_cast<UChar32>(c))) {
      out += to_upper(bytes);
    } else {
      out += bytes;
    }
  });
  return out;
}

std::string to_capitalized(std::string_view text) {
  if (text.empty()) return {};
  const Utf8Step step = decode_utf8(text);
  const auto head = static_cast<size_t>(step.length);
  return title_of(step.code_point, text.substr(0, head)) + to_lower(text.substr(head));
}

std::string to_title(std::string_view text) {
  std::string out;
  bool inside_word = false;
  for_each_code_point(text, [&](char32_t c, std::string_view bytes) {
    out += inside_word ? to_lower(bytes) : title_of(c, bytes);
    inside_word = is_cased(c);
  });
  return out;
}

bool all_in_class(std::string_view text, CharacterClass which) {
  if (text.empty()) return which == CharacterClass::printable;
  bool all = true;
  for_each_code_point(text, [&](char32_t c, std::string_view) { all = all && in_class(c, which); });
  return all;
}

bool is_lower_text(std::string_view text) {
  bool any = false, wrong = false;
  for_each_code_point(text, [&](char32_t c, std::string_view) {
    const auto u = static_cast<UChar32>(c);
    wrong = wrong || u_isUUppercase(u) || u_istitle(u);
    any = any || u_isULowercase(u);
  });
  return any && !wrong;
}

bool is_upper_text(std::string_view text) {
  bool any = false, wrong = false;
  for_each_code_point(text, [&](char32_t c, std::string_view) {
    const auto u = static_cast<UChar32>(c);
    wrong = wrong || u_isULowercase(u) || u_istitle(u);
    any = any || u_isUUppercase(u);
  });
  return any && !wrong;
}

bool is_title_text(std::string_view text) {
  bool any = false, wrong = false, previous_cased = false;
  for_each_code_point(text, [&](char32_t c, std::string_view) {
    const auto u = static_cast<UChar32>(c);
    if (u_isUUppercase(u) || u_istitle(u)) {
      wrong = wrong || previous_cased;
      previous_cased = any = true;
    } else if (u_isULowercase(u)) {
      wrong = wrong || !previous_cased;
      previous_cased = any = true;
    } else {
      previous_cased = false;
    }
  });
  return any && !wrong;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

std::vector<size_t> code_point_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); i += utf8_length(text[i])) offsets.push_back(i);
  offsets.push_back(text.size());
  return offsets;
}

}  // namespace strata::jinja
