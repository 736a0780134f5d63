#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace strata {

// A tokenizer for random models: token id is the letter id % 26, and the alphabet is spelled out.
class LetterTokenizer final : public Tokenizer {
 public:
  explicit LetterTokenizer(int64_t size) : size_(size) {}
  std::string token_bytes(TokenId id, bool /*at_start*/, bool /*show_control*/) const override {
    return {static_cast<char>('a' + id % 26)};
  }
  std::string_view piece(TokenId id) const override {
    return std::string_view("abcdefghijklmnopqrstuvwxyz").substr(static_cast<size_t>(id % 26), 1);
  }
  TokenKind kind(TokenId /*id*/) const override { return TokenKind::normal; }
  std::optional<TokenId> find_piece(std::string_view piece) const override {
    return piece.size() == 1 ? std::optional<TokenId>(piece[0] - 'a') : std::nullopt;
  }
  int64_t vocabulary_size() const override { return size_; }

 protected:
  std::vector<TokenId> encode_body(std::string_view text,
                                   std::span<const uint8_t> /*may_control*/) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back((c - 'a' + 26) % 26);
    return ids;
  }

 private:
  int64_t size_;
};

}  // namespace strata
