#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "train/token_data.h"
#include "train/training_text.h"

namespace strata {

// A text as tokens in a file that training maps, so that memory does not grow with the text:
//   the tokens for training, then those for validation: u16 each where the vocabulary has at most
//   65,536 tokens, else u32; little-endian
//   128 bytes: "STRATOK1", u32 bytes of a token, u32 0, i64 tokens for training, i64 tokens for
//   validation, 64 characters of the key, zeros

// What a token file depends on: text, tokenizer and share; sha256.
std::string token_file_key(const std::string& text_hash, const std::string& tokenizer_json,
                           double validation_share);

// Writes the file and maps it. `tick` is called every few megabytes with the share that is done,
// and may throw to end it. Throws Error{data_corrupt} naming the first character the tokenizer does
// not know, {resource_exhausted} when the disk is full; then there is no file.
TokenData write_token_file(const std::filesystem::path& path, const TrainingText& text,
                           const Tokenizer& tokenizer, double validation_share,
                           const std::string& key, const std::function<void(double)>& tick = {});

struct TokenFile {
  TokenData data;
  std::string key;
};
// Maps a file that was written before; nothing where there is none. Throws Error{data_corrupt} for
// one that is no token file, or not whole.
std::optional<TokenFile> open_token_file(const std::filesystem::path& path);

}  // namespace strata
