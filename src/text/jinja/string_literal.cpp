#include "text/jinja/string_literal.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/error.h"
#include "base/utf8.h"

namespace strata::jinja {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct Unescaper {
  std::string_view body;
  int line;
  size_t position = 0;
  std::string out = {};

  [[noreturn]] void fail_here(std::string_view reason) const {
    fail(ErrorCode::data_corrupt, "chat template: line {}: string literal: {}", line, reason);
  }

  void append(uint32_t code_point) {
    if (code_point > 0x10FFFF) fail_here("illegal Unicode character");
    if (code_point >= 0xD800 && code_point < 0xE000) fail_here("a lone surrogate is no character");
    append_utf8(out, static_cast<char32_t>(code_point));
  }

  void hex(size_t digits, std::string_view form) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const int digit = position < body.size() ? hex_digit(body[position]) : -1;
      if (digit < 0) fail_here(fmt::format("truncated {} escape", form));
      value = value * 16 + static_cast<uint32_t>(digit);
      ++position;
    }
    append(value);
  }

  void octal(char first) {
    auto value = static_cast<uint32_t>(first - '0');
    for (int i = 0; i < 2 && position < body.size(); ++i) {
      const char c = body[position];
      if (c < '0' || c > '7') break;
      value = value * 8 + static_cast<uint32_t>(c - '0');
      ++position;
    }
    append(value);
  }

  void escape() {
    if (position >= body.size()) fail_here("a backslash at the end");
    const auto byte = static_cast<unsigned char>(body[position]);
    if (byte >= 0x80) {
      // jinja2 spells other characters as escapes before it reads escapes, so that a backslash in
      // front of one protects the spelling.
      const Utf8Step step = decode_utf8(body.substr(position));
      position += static_cast<size_t>(step.length);
      const auto c = static_cast<uint32_t>(step.code_point);
      out += c < 0x100     ? fmt::format("\\x{:02x}", c)
             : c < 0x10000 ? fmt::format("\\u{:04x}", c)
                           : fmt::format("\\U{:08x}", c);
      return;
    }
    const char c = body[position++];
    switch (c) {
      case '\n':
        return;
      case '\\':
      case '\'':
      case '"':
        out += c;
        return;
      case 'a':
        out += '\a';
        return;
      case 'b':
        out += '\b';
        return;
      case 'f':
        out += '\f';
        return;
      case 'n':
        out += '\n';
        return;
      case 'r':
        out += '\r';
        return;
      case 't':
        out += '\t';
        return;
      case 'v':
        out += '\v';
        return;
      case 'x':
        return hex(2, "\\xXX");
      case 'u':
        return hex(4, "\\uXXXX");
      case 'U':
        return hex(8, "\\UXXXXXXXX");
      case 'N':
        fail(ErrorCode::unsupported, "chat template: line {}: \\N{{name}} in a string literal",
             line);
      default:
        if (c >= '0' && c <= '7') return octal(c);
        out += '\\';
        out += c;
    }
  }

  std::string run() {
    while (position < body.size()) {
      if (body[position] == '\\') {
        ++position;
        escape();
      } else {
        out += body[position++];
      }
    }
    return std::move(out);
  }
};

}  // namespace

std::string unescape_string(std::string_view body, int line) {
  return Unescaper{.body = body, .line = line}.run();
}

}  // namespace strata::jinja
