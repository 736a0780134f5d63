#include "train/token_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/philox.h"
#include "base/utf8.h"

namespace strata {
namespace {

bool is_unknown(const Tokenizer& tokenizer, TokenId id) {
  return id == tokenizer.specials().unknown || tokenizer.kind(id) == TokenKind::unknown;
}

}  // namespace

int32_t TokenSpan::operator[](int64_t i) const {
  if (width_ == 2) {
    uint16_t token;
    std::memcpy(&token, first_ + 2 * i, sizeof token);
    return token;
  }
  int32_t token;
  std::memcpy(&token, first_ + 4 * i, sizeof token);
  return token;
}

TokenData TokenData::of(std::vector<int32_t> tokens, int64_t train) {
  TokenData data;
  data.memory = std::make_shared<const std::vector<int32_t>>(std::move(tokens));
  const TokenSpan all(*data.memory);
  data.train = all.part(0, train);
  data.validation = all.part(train, all.size() - train);
  return data;
}

void TokenData::check_length(double validation_share, int64_t context) const {
  const auto check = [&](const TokenSpan& tokens, const char* part, int64_t least) {
    if (tokens.size() < least)
      fail(ErrorCode::data_corrupt,
           "train: the {} text has {} tokens, wanted at least {} (context {}); give more text or a "
           "smaller context",
           part, tokens.size(), least, context);
  };
  check(train, "training", context + 1);
  if (validation_share > 0) check(validation, "validation", 2);
}

int64_t training_characters(int64_t characters, double validation_share) {
  return static_cast<int64_t>(
      std::floor(static_cast<double>(characters) * (1 - validation_share) + 1e-9));
}

void encode_training_text(std::string_view text, int64_t first_byte, const Tokenizer& tokenizer,
                          std::vector<int32_t>& out) {
  const std::vector<int32_t> ids = tokenizer.encode(text, {ControlText::as_text, false});
  if (std::any_of(ids.begin(), ids.end(), [&](TokenId id) { return is_unknown(tokenizer, id); }))
    // Again, character by character, to say which.
    for (size_t at = 0; at < text.size();) {
      const auto length = static_cast<size_t>(decode_utf8(text.substr(at)).length);
      const std::string_view character = text.substr(at, length);
      for (const TokenId id : tokenizer.encode(character, {ControlText::as_text, false}))
        if (is_unknown(tokenizer, id))
          fail(ErrorCode::data_corrupt,
               "train: the character '{}' at byte {} is not in the tokenizer's vocabulary; use a "
               "tokenizer made from this text",
               character, first_byte + static_cast<int64_t>(at));
      at += length;
    }
  out.insert(out.end(), ids.begin(), ids.end());
}

TokenData make_token_data(std::string_view text, const Tokenizer& tokenizer,
                          double validation_share, int64_t context) {
  const int64_t kept = training_characters(count_code_points(text), validation_share);
  size_t split = 0;
  for (int64_t i = 0; i < kept; ++i)
    split += static_cast<size_t>(decode_utf8(text.substr(split)).length);
  std::vector<int32_t> tokens;
  encode_training_text(text.substr(0, split), 0, tokenizer, tokens);
  const auto train = static_cast<int64_t>(tokens.size());
  encode_training_text(text.substr(split), static_cast<int64_t>(split), tokenizer, tokens);
  TokenData data = TokenData::of(std::move(tokens), train);
  data.check_length(validation_share, context);
  return data;
}

void TokenBatch::clear() {
  tokens_.clear();
  positions_.clear();
  targets_.clear();
  sequences_.clear();
}

void TokenBatch::add(const TokenSpan& tokens, int64_t first, int64_t count) {
  sequences_.push_back({static_cast<int32_t>(tokens_.size()), static_cast<int32_t>(count), 0, -1});
  for (int64_t i = 0; i < count; ++i) {
    tokens_.push_back(tokens[first + i]);
    targets_.push_back(tokens[first + i + 1]);
    positions_.push_back(static_cast<int32_t>(i));
  }
}

void draw_windows(const TokenSpan& tokens, int64_t context, int64_t sequences, uint64_t seed,
                  int64_t micro_batch, TokenBatch& out) {
  const auto places = static_cast<double>(tokens.size() - context);
  out.clear();
  for (int64_t i = 0; i < sequences; ++i) {
    const auto words = philox4x32(
        {static_cast<uint32_t>(i), static_cast<uint32_t>(micro_batch),
         static_cast<uint32_t>(RandomPurpose::shuffle), static_cast<uint32_t>(micro_batch >> 32)},
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    out.add(tokens, static_cast<int64_t>(uniform_from_words(words[0], words[1]) * places), context);
  }
}

int64_t whole_windows(const TokenSpan& tokens, int64_t context) {
  return (tokens.size() - 1 + context - 1) / context;
}

void add_whole_window(const TokenSpan& tokens, int64_t context, int64_t index, TokenBatch& out) {
  const int64_t first = index * context;
  out.add(tokens, first, std::min(context, tokens.size() - 1 - first));
}

}  // namespace strata
