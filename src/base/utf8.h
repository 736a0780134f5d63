#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

// One step of UTF-8 decoding: the code point and its bytes. `length` == 0: end of text.
// Ill-formed bytes (overlong forms, surrogates, above U+10FFFF, cut sequences) give valid == false,
// code_point U+FFFD and the length of the maximal ill-formed subpart (Unicode 15, section 3.9,
// "best practice"), so that replacing each step gives the same text as Python's errors="replace".
struct Utf8Step {
  char32_t code_point = 0;
  int length = 0;
  bool valid = false;
};
Utf8Step decode_utf8(std::string_view text);

bool is_valid_utf8(std::string_view text);
// Bytes at the start of text that are whole, well-formed characters or can no longer become one;
// the rest (at most 3 bytes) is a well-formed beginning of a character.
size_t complete_utf8_prefix(std::string_view text);
// At most `most` bytes from the start of text, without half a character at the end: what a message
// shows of something that may be megabytes.
std::string_view clipped_utf8(std::string_view text, size_t most);
// Each ill-formed part becomes one U+FFFD.
std::string replace_invalid_utf8(std::string_view text);
void append_utf8(std::string& out, char32_t code_point);
// Code points in well-formed text; each ill-formed part counts as one.
int64_t count_code_points(std::string_view text);

}  // namespace strata
