#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "exec/exec.h"
#include "text/tokenizer.h"

namespace strata {

// The text of a file, or of the .txt files of a folder in order of their names, one after the
// other. Throws Error{not_found}, and {data_corrupt} for no text at all or text that is no UTF-8.
std::string read_training_text(const std::filesystem::path& path);

// A text as tokens: the last `validation_share` of its characters, contiguous, for validation.
struct TokenData {
  std::vector<int32_t> train, validation;
};

// Throws Error{data_corrupt} naming the first character the tokenizer does not know, or when a part
// is too short for one sequence of `context` tokens and its targets.
TokenData make_token_data(const std::string& text, const Tokenizer& tokenizer,
                          double validation_share, int64_t context);

// Sequences for one pass. Every token is the target of the one before it.
class TokenBatch {
 public:
  void clear();
  // Tokens [first, first + count) as a sequence, targets one further on.
  void add(const std::vector<int32_t>& tokens, int64_t first, int64_t count);
  Batch batch() const { return {tokens_, positions_, sequences_}; }
  const int32_t* targets() const { return targets_.data(); }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  std::vector<int32_t> tokens_, positions_, targets_;
  std::vector<SequenceRows> sequences_;
};

// `sequences` windows of `context` tokens at places drawn for this micro-batch: the same for the
// same (seed, micro_batch), whatever came before.
void draw_windows(const std::vector<int32_t>& tokens, int64_t context, int64_t sequences,
                  uint64_t seed, int64_t micro_batch, TokenBatch& out);

// Windows that do not overlap and together score every token but the first: window i begins at
// i * context, the last may be shorter.
int64_t whole_windows(const std::vector<int32_t>& tokens, int64_t context);
void add_whole_window(const std::vector<int32_t>& tokens, int64_t context, int64_t index,
                      TokenBatch& out);

}  // namespace strata
