#include "text/byte_alphabet.h"

#include <fmt/core.h>

#include <array>

#include "base/utf8.h"

namespace strata {
namespace {

struct Alphabet {
  std::array<std::string, 256> spelling;
  std::array<int, 0x144> byte_of;  // by code point; -1: not in the alphabet

  Alphabet() {
    byte_of.fill(-1);
    char32_t next_stand_in = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const char32_t c = itself ? static_cast<char32_t>(b) : next_stand_in++;
      append_utf8(spelling[static_cast<size_t>(b)], c);
      byte_of[c] = b;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet a;
  return a;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string_view byte_spelling(unsigned char byte) { return alphabet().spelling[byte]; }

void append_byte_spelling(std::string& out, std::string_view bytes) {
  const Alphabet& a = alphabet();
  for (const char c : bytes) out += a.spelling[static_cast<unsigned char>(c)];
}

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  const Alphabet& a = alphabet();
  std::string out;
  while (!spelling.empty()) {
    const Utf8Step step = decode_utf8(spelling);
    if (!step.valid || step.code_point >= a.byte_of.size() || a.byte_of[step.code_point] < 0)
      return std::nullopt;
    out += static_cast<char>(a.byte_of[step.code_point]);
    spelling.remove_prefix(static_cast<size_t>(step.length));
  }
  return out;
}

std::optional<unsigned char> byte_of_hex_piece(std::string_view piece) {
  if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>') return std::nullopt;
  const int high = hex_digit(piece[3]);
  const int low = hex_digit(piece[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

std::string hex_piece_of_byte(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace strata
