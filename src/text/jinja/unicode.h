#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// The Unicode rules of Python's str, on well-formed UTF-8. Case mappings are the full ones (ß to
// SS), from ICU; its Unicode version may be newer than Python's.
namespace strata::jinja {

// str.isspace(): what strip() and split() take for blanks.
bool is_python_space(char32_t c);
// Where str.splitlines() breaks ("\r\n" is one break).
bool is_line_break(char32_t c);
// str.isprintable(): repr() escapes what is not.
bool is_printable(char32_t c);
bool is_identifier_start(char32_t c);
bool is_identifier_part(char32_t c);
bool is_word_character(char32_t c);  // \w of Python's re

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_swapcase(std::string_view text);
std::string to_casefold(std::string_view text);
std::string to_capitalized(std::string_view text);
// str.title(): a new word begins after each character without case.
std::string to_title(std::string_view text);

enum class CharacterClass : uint8_t { alpha, alnum, digit, decimal, numeric, space, printable };
// str.isalpha() and its like: not empty and every character in the class (printable: also empty).
bool all_in_class(std::string_view text, CharacterClass which);
bool is_lower_text(std::string_view text);  // str.islower()
bool is_upper_text(std::string_view text);
bool is_title_text(std::string_view text);

bool is_ascii(std::string_view text);
// The byte offset of each code point, then text.size().
std::vector<size_t> code_point_offsets(std::string_view text);
// Length of the character that starts with this byte.
inline size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace strata::jinja
