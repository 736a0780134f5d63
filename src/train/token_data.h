#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "exec/exec.h"
#include "text/tokenizer.h"

namespace strata {

// Consecutive tokens, in memory or in a mapped file: u16 or u32 each, little-endian.
class TokenSpan {
 public:
  TokenSpan() = default;
  // Of ids that are not negative.
  TokenSpan(const std::vector<int32_t>& tokens)
      : TokenSpan(reinterpret_cast<const std::byte*>(tokens.data()), 4,
                  static_cast<int64_t>(tokens.size())) {}
  TokenSpan(const std::byte* first, int width, int64_t size)
      : first_(first), width_(width), size_(size) {}

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int32_t operator[](int64_t i) const;
  TokenSpan part(int64_t first, int64_t count) const {
    return {first_ + first * width_, width_, count};
  }

 private:
  const std::byte* first_ = nullptr;
  int width_ = 4;  // bytes of a token
  int64_t size_ = 0;
};

// A text as tokens: the last part of its characters, contiguous, for validation.
struct TokenData {
  TokenSpan train, validation;
  // Where they are, one of the two.
  std::shared_ptr<const MappedFile> file;
  std::shared_ptr<const std::vector<int32_t>> memory;

  // The first `train` of the tokens for training, the rest for validation.
  static TokenData of(std::vector<int32_t> tokens, int64_t train);
  // Throws Error{data_corrupt} where somebody has changed the file.
  void check_intact() const {
    if (file != nullptr) file->check_intact();
  }
  // Throws Error{data_corrupt} when a part is too short for one sequence of `context` tokens and
  // its targets.
  void check_length(double validation_share, int64_t context) const;
};

// How many of a text's characters are for training.
int64_t training_characters(int64_t characters, double validation_share);

// Appends the tokens of `text`, which begins at byte `first_byte` of the whole. Throws
// Error{data_corrupt} naming the first character the tokenizer does not know.
void encode_training_text(std::string_view text, int64_t first_byte, const Tokenizer& tokenizer,
                          std::vector<int32_t>& out);

// A small text at once, checked for length (token_file.h is for the large ones).
TokenData make_token_data(std::string_view text, const Tokenizer& tokenizer,
                          double validation_share, int64_t context);

// Sequences for one pass. Every token is the target of the one before it.
class TokenBatch {
 public:
  void clear();
  // Tokens [first, first + count) as a sequence, targets one further on.
  void add(const TokenSpan& tokens, int64_t first, int64_t count);
  Batch batch() const { return {tokens_, positions_, sequences_}; }
  const int32_t* targets() const { return targets_.data(); }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  std::vector<int32_t> tokens_, positions_, targets_;
  std::vector<SequenceRows> sequences_;
};

// `sequences` windows of `context` tokens at places drawn for this micro-batch: the same for the
// same (seed, micro_batch), whatever came before.
void draw_windows(const TokenSpan& tokens, int64_t context, int64_t sequences, uint64_t seed,
                  int64_t micro_batch, TokenBatch& out);

// Windows that do not overlap and together score every token but the first: window i begins at
// i * context, the last may be shorter.
int64_t whole_windows(const TokenSpan& tokens, int64_t context);
void add_whole_window(const TokenSpan& tokens, int64_t context, int64_t index, TokenBatch& out);

}  // namespace strata
