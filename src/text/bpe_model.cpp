#include "text/bpe_model.h"

#include <utility>

#include "base/utf8.h"
#include "text/byte_alphabet.h"

namespace strata {
BpeModel::BpeModel(const PieceTable& pieces, std::vector<bool> is_text, MergeTable merges,
                   const BpeOptions& options)
    : pieces_(&pieces),
      is_text_(std::move(is_text)),
      merges_(std::move(merges)),
      options_(options) {
  const bool bytes = options_.symbols == BpeOptions::Symbols::bytes;
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<unsigned char>(b);
    byte_ids_[byte] =
        bytes ? find_text(byte_spelling(byte)) : pieces_->find(hex_piece_of_byte(byte));
  }
}

TokenId BpeModel::find_text(std::string_view piece) const {
  const TokenId id = pieces_->find(piece);
  return id != kNoToken && is_text_[static_cast<size_t>(id)] ? id : kNoToken;
}

void BpeModel::append_bytes(std::string_view word, std::vector<TokenId>& symbols) const {
  for (const char c : word) {
    TokenId id = byte_ids_[static_cast<unsigned char>(c)];
    if (id == kNoToken) id = options_.unknown;
    if (id == kNoToken) continue;
    if (options_.fuse_unknown && id == options_.unknown && !symbols.empty() && symbols.back() == id)
      continue;
    symbols.push_back(id);
  }
}

void BpeModel::append_characters(std::string_view word, std::vector<TokenId>& symbols) const {
  while (!word.empty()) {
    const Utf8Step step = decode_utf8(word);
    const std::string_view character = word.substr(0, step.valid ? step.length : 1);
    word.remove_prefix(character.size());
    if (const TokenId id = find_text(character); id != kNoToken) {
      symbols.push_back(id);
      continue;
    }
    if (options_.byte_fallback) {
      bool all = true;
      for (const char c : character) all &= byte_ids_[static_cast<unsigned char>(c)] != kNoToken;
      if (all) {
        for (const char c : character) symbols.push_back(byte_ids_[static_cast<unsigned char>(c)]);
        continue;
      }
    }
    if (options_.unknown == kNoToken) continue;
    if (options_.fuse_unknown && !symbols.empty() && symbols.back() == options_.unknown) continue;
    symbols.push_back(options_.unknown);
  }
}

void BpeModel::encode(std::string_view word, std::vector<TokenId>& out) const {
  const bool bytes = options_.symbols == BpeOptions::Symbols::bytes;
  if (options_.ignore_merges && word.size() <= pieces_->longest()) {
    std::string spelled;
    if (bytes) append_byte_spelling(spelled, word);
    if (const TokenId id = find_text(bytes ? std::string_view(spelled) : word); id != kNoToken) {
      out.push_back(id);
      return;
    }
  }
  std::vector<TokenId> symbols;
  symbols.reserve(word.size());
  if (bytes)
    append_bytes(word, symbols);
  else
    append_characters(word, symbols);
  merges_.apply(symbols, out);
}

}  // namespace strata
