#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/tokenizer.h"

namespace strata {

// A token that is looked for in the text before everything else.
struct AddedToken {
  TokenId id = kNoToken;
  std::string content;
  bool control = false;      // only where every byte of the text may be control text
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and behind it
  bool normalized = false;   // looked for after the normalizer (never a control token)
};

// Finds added tokens: at each place the longest that may stand there, from left to right.
class AddedTokens {
 public:
  // The longest content; longer ones would make matching quadratic for a text made for it.
  static constexpr size_t kLongestContent = 1024;

  AddedTokens() = default;
  // Throws Error{unsupported} for a content longer than kLongestContent; empty ones are left out.
  AddedTokens(std::vector<AddedToken> tokens, std::string_view source);
  bool empty() const { return trie_.empty(); }

  struct Match {
    size_t begin = 0, end = 0;  // with the white space taken along
    TokenId id = kNoToken;      // kNoToken: no further match
  };
  // The first match at or behind `from`. may_control: one byte per byte of text, or empty (none).
  Match find(std::string_view text, size_t from, std::span<const uint8_t> may_control) const;

 private:
  const AddedToken* longest_at(std::string_view text, size_t at, size_t from,
                               std::span<const uint8_t> may_control) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;                 // ids are indexes into tokens_
  std::bitset<65536> first_two_;  // first byte << 8 | second, as they can begin a token
  std::bitset<256> single_byte_;  // tokens of one byte
};

}  // namespace strata
