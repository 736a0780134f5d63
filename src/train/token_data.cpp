#include "train/token_data.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/philox.h"
#include "base/utf8.h"

namespace strata {
namespace {

std::string read_one(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::not_found, "train: {}: cannot be read", path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The byte at which the last `share` of the characters begins.
size_t split_point(std::string_view text, double share) {
  const int64_t characters = count_code_points(text);
  const auto kept =
      static_cast<int64_t>(std::floor(static_cast<double>(characters) * (1 - share) + 1e-9));
  size_t at = 0;
  for (int64_t i = 0; i < kept; ++i) at += static_cast<size_t>(decode_utf8(text.substr(at)).length);
  return at;
}

std::vector<int32_t> encode(std::string_view text, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = tokenizer.encode(text, {ControlText::as_text, false});
  const TokenId unknown = tokenizer.specials().unknown;
  const bool any = std::any_of(ids.begin(), ids.end(), [&](TokenId id) {
    return id == unknown || tokenizer.kind(id) == TokenKind::unknown;
  });
  if (!any) return ids;
  // Again, character by character, to say which.
  for (size_t at = 0; at < text.size();) {
    const auto length = static_cast<size_t>(decode_utf8(text.substr(at)).length);
    const std::string_view character = text.substr(at, length);
    for (const TokenId id : tokenizer.encode(character, {ControlText::as_text, false}))
      if (id == unknown || tokenizer.kind(id) == TokenKind::unknown)
        fail(ErrorCode::data_corrupt,
             "train: the character '{}' at byte {} is not in the tokenizer's vocabulary; use a "
             "tokenizer made from this text",
             character, at);
    at += length;
  }
  return ids;
}

}  // namespace

std::string read_training_text(const std::filesystem::path& path) {
  std::error_code error;
  std::string text;
  if (std::filesystem::is_directory(path, error)) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.path().extension() == ".txt") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) text += read_one(file);
  } else {
    text = read_one(path);
  }
  if (text.empty())
    fail(ErrorCode::data_corrupt, "train: {}: there is no text in it", path.string());
  if (!is_valid_utf8(text))
    fail(ErrorCode::data_corrupt, "train: {}: is no UTF-8 text", path.string());
  return text;
}

TokenData make_token_data(const std::string& text, const Tokenizer& tokenizer,
                          double validation_share, int64_t context) {
  const size_t split = split_point(text, validation_share);
  TokenData data;
  data.train = encode(std::string_view(text).substr(0, split), tokenizer);
  data.validation = encode(std::string_view(text).substr(split), tokenizer);
  const auto check = [&](const std::vector<int32_t>& tokens, const char* part, int64_t least) {
    if (static_cast<int64_t>(tokens.size()) < least)
      fail(ErrorCode::data_corrupt,
           "train: the {} text has {} tokens, wanted at least {} (context {}); give more text or a "
           "smaller context",
           part, tokens.size(), least, context);
  };
  check(data.train, "training", context + 1);
  if (validation_share > 0) check(data.validation, "validation", 2);
  return data;
}

void TokenBatch::clear() {
  tokens_.clear();
  positions_.clear();
  targets_.clear();
  sequences_.clear();
}

void TokenBatch::add(const std::vector<int32_t>& tokens, int64_t first, int64_t count) {
  sequences_.push_back({static_cast<int32_t>(tokens_.size()), static_cast<int32_t>(count), 0, -1});
  for (int64_t i = 0; i < count; ++i) {
    tokens_.push_back(tokens[static_cast<size_t>(first + i)]);
    targets_.push_back(tokens[static_cast<size_t>(first + i + 1)]);
    positions_.push_back(static_cast<int32_t>(i));
  }
}

void draw_windows(const std::vector<int32_t>& tokens, int64_t context, int64_t sequences,
                  uint64_t seed, int64_t micro_batch, TokenBatch& out) {
  const auto places = static_cast<double>(static_cast<int64_t>(tokens.size()) - context);
  out.clear();
  for (int64_t i = 0; i < sequences; ++i) {
    const auto words = philox4x32(
        {static_cast<uint32_t>(i), static_cast<uint32_t>(micro_batch),
         static_cast<uint32_t>(RandomPurpose::shuffle), static_cast<uint32_t>(micro_batch >> 32)},
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    out.add(tokens, static_cast<int64_t>(uniform_from_words(words[0], words[1]) * places), context);
  }
}

int64_t whole_windows(const std::vector<int32_t>& tokens, int64_t context) {
  return (static_cast<int64_t>(tokens.size()) - 1 + context - 1) / context;
}

void add_whole_window(const std::vector<int32_t>& tokens, int64_t context, int64_t index,
                      TokenBatch& out) {
  const int64_t first = index * context;
  out.add(tokens, first, std::min(context, static_cast<int64_t>(tokens.size()) - 1 - first));
}

}  // namespace strata
