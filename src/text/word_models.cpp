#include "text/word_models.h"

#include <utility>

#include "base/utf8.h"

namespace strata {

WordLevelModel::WordLevelModel(const PieceTable& pieces, std::vector<bool> is_text, TokenId unknown)
    : pieces_(&pieces), is_text_(std::move(is_text)), unknown_(unknown) {}

void WordLevelModel::encode(std::string_view word, std::vector<TokenId>& out) const {
  const TokenId id = pieces_->find(word);
  out.push_back(id != kNoToken && is_text_[static_cast<size_t>(id)] ? id : unknown_);
}

WordPieceModel::WordPieceModel(const PieceTable& pieces, std::vector<bool> is_text, TokenId unknown,
                               std::string continuing_prefix, int64_t most_characters)
    : pieces_(&pieces),
      is_text_(std::move(is_text)),
      unknown_(unknown),
      continuing_prefix_(std::move(continuing_prefix)),
      most_characters_(most_characters) {}

void WordPieceModel::encode(std::string_view word, std::vector<TokenId>& out) const {
  const size_t start = out.size();
  if (count_code_points(word) > most_characters_) {
    out.push_back(unknown_);
    return;
  }
  std::string candidate;
  for (size_t at = 0; at < word.size();) {
    size_t end = word.size();
    TokenId id = kNoToken;
    for (; end > at; --end) {
      candidate = at > 0 ? continuing_prefix_ : std::string();
      candidate += word.substr(at, end - at);
      id = pieces_->find(candidate);
      if (id != kNoToken && is_text_[static_cast<size_t>(id)]) break;
      id = kNoToken;
    }
    if (id == kNoToken) {
      out.resize(start);
      out.push_back(unknown_);
      return;
    }
    out.push_back(id);
    at = end;
  }
}

}  // namespace strata
