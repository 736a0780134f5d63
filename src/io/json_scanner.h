#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "io/message_text.h"

namespace strata {

// Reads JSON of a known shape straight from text, without building a tree, and strictly: a key that
// occurs twice in an object, ill-formed UTF-8, lone surrogates, control characters in strings and
// text after the value are refused. Used where millions of entries may come (safetensors headers,
// shard indexes); nothing recurses but skip_value, to a fixed depth. All errors are data_corrupt
// and name the file and the byte offset in it.
class JsonScanner {
 public:
  // `offset` is where text[0] lies in the file, for messages.
  JsonScanner(std::string_view text, std::string_view file, uint64_t offset)
      : text_(text), file_(file), offset_(offset) {}

  // { "key": value, ... }: calls on_member(key) with the scanner before each value, which it must
  // read.
  template <typename OnMember>
  void read_object(OnMember on_member) {
    expect('{');
    if (consume('}')) return;
    std::set<std::string, std::less<>> seen;
    do {
      std::string key = read_string();
      if (!seen.insert(key).second) refuse("duplicate name {}", in_quotes(key));
      expect(':');
      on_member(std::move(key));
    } while (consume(','));
    expect('}');
  }

  // [ value, ... ]: calls on_element() before each value.
  template <typename OnElement>
  void read_array(OnElement on_element) {
    expect('[');
    if (consume(']')) return;
    do on_element();
    while (consume(','));
    expect(']');
  }

  std::string read_string();
  // A number without sign, fraction and exponent that fits 64 bits.
  uint64_t read_unsigned();
  // Any value, checked as far as its shape goes; nested at most 64 deep.
  void skip_value(int depth = 0);
  // Only white space may follow.
  void expect_end();

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::data_corrupt, "{}: JSON at byte offset {}: {}", file_, offset_ + position_,
         fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void expect(char wanted);
  bool consume(char c);
  void skip_space();
  void skip_literal(std::string_view word);
  void skip_number();
  void skip_digits();
  char32_t read_escaped_character();
  uint32_t read_four_hex_digits();
  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  // What stands at the position, for messages.
  std::string found() const;

  std::string_view text_;
  std::string_view file_;
  uint64_t offset_;
  size_t position_ = 0;
};

}  // namespace strata
