#include "io/json_scanner.h"

#include "base/utf8.h"

namespace strata {
namespace {

constexpr int kMaxDepth = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string JsonScanner::found() const {
  return position_ < text_.size() ? in_quotes(text_.substr(position_, 12)) : "the end of the text";
}

void JsonScanner::skip_space() {
  while (position_ < text_.size() &&
         std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos)
    ++position_;
}

bool JsonScanner::consume(char c) {
  skip_space();
  if (peek() != c) return false;
  ++position_;
  return true;
}

void JsonScanner::expect(char wanted) {
  if (!consume(wanted)) refuse("found {}, wanted '{}'", found(), wanted);
}

void JsonScanner::expect_end() {
  skip_space();
  if (position_ < text_.size()) refuse("found {} after the end of the value", found());
}

uint32_t JsonScanner::read_four_hex_digits() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = peek();
    uint32_t digit = 0;
    if (is_digit(c))
      digit = static_cast<uint32_t>(c - '0');
    else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
      digit = static_cast<uint32_t>((c | 0x20) - 'a') + 10;
    else
      refuse("found {}, wanted four hexadecimal digits after \\u", found());
    value = value * 16 + digit;
    ++position_;
  }
  return value;
}

// After the backslash.
char32_t JsonScanner::read_escaped_character() {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const char c = peek();
  if (c != '\0')
    if (const size_t at = kLetters.find(c); at != std::string_view::npos) {
      ++position_;
      return static_cast<char32_t>(kMeanings[at]);
    }
  if (c != 'u') refuse("unknown escape before {}", found());
  ++position_;
  const uint32_t first = read_four_hex_digits();
  if (first < 0xd800 || first > 0xdfff) return first;
  if (first < 0xdc00 && text_.substr(position_, 2) == "\\u") {
    position_ += 2;
    const uint32_t second = read_four_hex_digits();
    if (second >= 0xdc00 && second <= 0xdfff)
      return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
  }
  refuse("a surrogate without its other half");
}

std::string JsonScanner::read_string() {
  skip_space();
  if (peek() != '"') refuse("found {}, wanted a string", found());
  ++position_;
  const size_t start = position_;
  std::string out;
  while (true) {
    if (position_ == text_.size()) refuse("a string has no end");
    const char c = text_[position_];
    if (static_cast<unsigned char>(c) < 0x20) refuse("a control character in a string");
    ++position_;
    if (c == '"') break;
    if (c == '\\')
      append_utf8(out, read_escaped_character());
    else
      out += c;
  }
  if (!is_valid_utf8(out)) {
    position_ = start;
    refuse("string {} is not well-formed UTF-8", in_quotes(out));
  }
  return out;
}

uint64_t JsonScanner::read_unsigned() {
  skip_space();
  const size_t start = position_;
  uint64_t value = 0;
  while (is_digit(peek())) {
    const auto digit = static_cast<uint64_t>(peek() - '0');
    if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
        __builtin_add_overflow(value, digit, &value))
      refuse("a number does not fit 64 bits");
    ++position_;
  }
  const size_t digits = position_ - start;
  const char next = peek();
  if (digits == 0 || (digits > 1 && text_[start] == '0') || next == '.' || next == 'e' ||
      next == 'E')
    refuse("found {}, wanted a whole number of at least 0",
           in_quotes(text_.substr(start, digits + 12)));
  return value;
}

void JsonScanner::skip_literal(std::string_view word) {
  if (text_.substr(position_, word.size()) != word) refuse("found {}, wanted a value", found());
  position_ += word.size();
}

void JsonScanner::skip_digits() {
  if (!is_digit(peek())) refuse("found {}, wanted a digit", found());
  while (is_digit(peek())) ++position_;
}

void JsonScanner::skip_number() {
  if (peek() == '-') ++position_;
  if (peek() == '0')
    ++position_;
  else
    skip_digits();
  if (peek() == '.') {
    ++position_;
    skip_digits();
  }
  if (peek() == 'e' || peek() == 'E') {
    ++position_;
    if (peek() == '+' || peek() == '-') ++position_;
    skip_digits();
  }
}

void JsonScanner::skip_value(int depth) {
  if (depth >= kMaxDepth) refuse("nested deeper than {}", kMaxDepth);
  skip_space();
  switch (peek()) {
    case '{':
      return read_object([&](const std::string&) { skip_value(depth + 1); });
    case '[':
      return read_array([&] { skip_value(depth + 1); });
    case '"':
      read_string();
      return;
    case 't':
      return skip_literal("true");
    case 'f':
      return skip_literal("false");
    case 'n':
      return skip_literal("null");
    default:
      return skip_number();
  }
}

}  // namespace strata
