#include "text/pipeline_tokenizer.h"

#include <utility>

#include "base/error.h"
#include "text/byte_alphabet.h"

namespace strata {

PipelineTokenizer::PipelineTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {
  STRATA_ASSERT(parts_.pieces != nullptr && parts_.model != nullptr);
  STRATA_ASSERT(parts_.kinds.size() == static_cast<size_t>(parts_.pieces->size()));
  specials_ = parts_.specials;
  if (parts_.pre_tokenizers.size() == 1)
    if (const auto pattern = parts_.pre_tokenizers[0]->pattern())
      lone_splitter_ = word_length_function(*pattern);
}

std::vector<TokenId> PipelineTokenizer::encode_body(std::string_view text,
                                                    std::span<const uint8_t> may_control) const {
  constexpr size_t kMostBytes = 1u << 30;  // ICU and the models count with 32 bits
  if (text.size() > kMostBytes)
    fail(ErrorCode::invalid_argument, "tokenizer: a text of {} bytes is too long (limit {})",
         text.size(), kMostBytes);
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 8);
  WordCache cache(*parts_.model);
  size_t at = 0;
  while (at < text.size()) {
    const AddedTokens::Match match = parts_.added.find(text, at, may_control);
    const size_t fragment_end = match.id == kNoToken ? text.size() : match.begin;
    if (fragment_end > at) encode_fragment(text.substr(at, fragment_end - at), at == 0, cache, ids);
    if (match.id == kNoToken) break;
    ids.push_back(match.id);
    at = match.end;
  }
  return ids;
}

void PipelineTokenizer::encode_fragment(std::string_view text, bool at_text_start, WordCache& cache,
                                        std::vector<TokenId>& out) const {
  std::string changed;
  if (!parts_.normalizers.empty()) {
    changed = text;
    for (const auto& normalizer : parts_.normalizers) normalizer->apply(changed);
    text = changed;
  }
  size_t at = 0;
  while (at < text.size()) {
    const AddedTokens::Match match = parts_.added_normalized.find(text, at, {});
    const size_t end = match.id == kNoToken ? text.size() : match.begin;
    if (end > at)
      encode_normalized(text.substr(at, end - at), at_text_start && at == 0, cache, out);
    if (match.id == kNoToken) break;
    out.push_back(match.id);
    at = match.end;
  }
}

void PipelineTokenizer::encode_normalized(std::string_view text, bool at_text_start,
                                          WordCache& cache, std::vector<TokenId>& out) const {
  if (lone_splitter_ != nullptr) {
    const char* p = text.data();
    const char* end = p + text.size();
    while (p != end) {
      const size_t n = lone_splitter_(p, end);
      cache.encode(std::string_view(p, n), out);
      p += n;
    }
    return;
  }
  WordList list;
  list.words.push_back(text);
  list.at_text_start = at_text_start;
  for (const auto& step : parts_.pre_tokenizers) step->apply(list);
  for (const std::string_view word : list.words) cache.encode(word, out);
}

size_t PipelineTokenizer::checked(TokenId id) const {
  if (id < 0 || id >= vocabulary_size())
    fail(ErrorCode::invalid_argument, "tokenizer: token id {} is outside the vocabulary of {}", id,
         vocabulary_size());
  return static_cast<size_t>(id);
}

std::string PipelineTokenizer::token_bytes(TokenId id, bool at_start, bool show_control) const {
  const TokenKind k = parts_.kinds[checked(id)];
  if (is_silent(id, show_control)) return {};
  std::string bytes((*parts_.pieces)[id]);
  if (k == TokenKind::control || k == TokenKind::unknown) return bytes;
  if (k == TokenKind::user_defined && !parts_.decode_user_defined) return bytes;
  if (k == TokenKind::byte)
    if (const auto byte = byte_of_hex_piece(bytes)) return std::string(1, static_cast<char>(*byte));
  for (const auto& step : parts_.decode_steps) step->apply(bytes, at_start);
  return bytes;
}

std::string_view PipelineTokenizer::piece(TokenId id) const {
  checked(id);
  return (*parts_.pieces)[id];
}

TokenKind PipelineTokenizer::kind(TokenId id) const { return parts_.kinds[checked(id)]; }

std::optional<TokenId> PipelineTokenizer::find_piece(std::string_view piece) const {
  const TokenId id = parts_.pieces->find(piece);
  if (id == kNoToken) return std::nullopt;
  return id;
}

}  // namespace strata
