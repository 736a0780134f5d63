#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace strata {

// GPT-2's byte alphabet: each byte has a printable character, so that any bytes can be spelled in a
// JSON vocabulary. '!'..'~', U+00A1..U+00AC and U+00AE..U+00FF stand for themselves; the 68 other
// bytes in rising order are U+0100..U+0143 ("Ġ" is the space, "Ċ" the line feed).

// The character of a byte, in UTF-8.
std::string_view byte_spelling(unsigned char byte);
// Appends the spelling of each byte.
void append_byte_spelling(std::string& out, std::string_view bytes);
// The bytes that `spelling` stands for; nothing when a character is outside the alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

// The byte of "<0x41>" (upper or lower case digits), the way SentencePiece spells byte tokens.
std::optional<unsigned char> byte_of_hex_piece(std::string_view piece);
std::string hex_piece_of_byte(unsigned char byte);

}  // namespace strata
