#include "base/utf8.h"

namespace strata {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Lead {
  int length;         // of the whole sequence; 0: cannot start one
  unsigned char low;  // allowed range of the second byte
  unsigned char high;
};

// Table 3-7 of the Unicode Standard: which second bytes each lead byte allows.
constexpr Lead classify(unsigned char b) {
  if (b < 0x80) return {1, 0, 0};
  if (b < 0xC2) return {0, 0, 0};
  if (b < 0xE0) return {2, 0x80, 0xBF};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b < 0xF0) return {3, 0x80, 0xBF};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b < 0xF4) return {4, 0x80, 0xBF};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Bytes of the sequence at the start of text that are right; `wanted` is its whole length.
int good_bytes(std::string_view text, int& wanted) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const Lead lead = classify(at(0));
  wanted = lead.length;
  if (lead.length <= 1) return lead.length;
  int good = 1;
  while (good < lead.length && static_cast<size_t>(good) < text.size()) {
    const unsigned char b = at(static_cast<size_t>(good));
    const unsigned char low = good == 1 ? lead.low : 0x80;
    const unsigned char high = good == 1 ? lead.high : 0xBF;
    if (b < low || b > high) break;
    ++good;
  }
  return good;
}

}  // namespace

Utf8Step decode_utf8(std::string_view text) {
  if (text.empty()) return {};
  int wanted = 0;
  const int good = good_bytes(text, wanted);
  if (wanted == 0) return {kReplacement, 1, false};
  if (good < wanted) return {kReplacement, good, false};
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (wanted == 1) return {at(0), 1, true};
  char32_t code = at(0) & (0xFFu >> (wanted + 1));
  for (int i = 1; i < wanted; ++i) code = code << 6 | (at(static_cast<size_t>(i)) & 0x3Fu);
  return {code, wanted, true};
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = decode_utf8(text);
    if (!step.valid) return false;
    text.remove_prefix(static_cast<size_t>(step.length));
  }
  return true;
}

size_t complete_utf8_prefix(std::string_view text) {
  // Only the last three bytes can begin a character that is not there yet.
  const size_t start = text.size() > 3 ? text.size() - 3 : 0;
  for (size_t i = start; i < text.size(); ++i) {
    int wanted = 0;
    const int good = good_bytes(text.substr(i), wanted);
    const size_t left = text.size() - i;
    if (wanted > 1 && static_cast<size_t>(good) == left && good < wanted) return i;
  }
  return text.size();
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = decode_utf8(text);
    if (step.valid)
      out.append(text.substr(0, static_cast<size_t>(step.length)));
    else
      append_utf8(out, kReplacement);
    text.remove_prefix(static_cast<size_t>(step.length));
  }
  return out;
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) {
    out += static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

int64_t count_code_points(std::string_view text) {
  int64_t count = 0;
  while (!text.empty()) {
    text.remove_prefix(static_cast<size_t>(decode_utf8(text).length));
    ++count;
  }
  return count;
}

std::string_view clipped_utf8(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  text = text.substr(0, most);
  return text.substr(0, complete_utf8_prefix(text));
}

}  // namespace strata
