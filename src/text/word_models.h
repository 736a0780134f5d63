#pragma once

#include <string>
#include <vector>

#include "text/piece_table.h"
#include "text/token_model.h"

namespace strata {

// `WordLevel` of tokenizer.json: a word is a piece or unknown.
class WordLevelModel : public TokenModel {
 public:
  WordLevelModel(const PieceTable& pieces, std::vector<bool> is_text, TokenId unknown);
  void encode(std::string_view word, std::vector<TokenId>& out) const override;

 private:
  const PieceTable* pieces_;
  std::vector<bool> is_text_;
  TokenId unknown_;
};

// `WordPiece` of tokenizer.json (BERT): from the left always the longest piece, pieces inside a
// word with `continuing_prefix` before them; a word that cannot be covered so, or that has more
// than most_characters, is unknown as a whole.
class WordPieceModel : public TokenModel {
 public:
  WordPieceModel(const PieceTable& pieces, std::vector<bool> is_text, TokenId unknown,
                 std::string continuing_prefix, int64_t most_characters);
  void encode(std::string_view word, std::vector<TokenId>& out) const override;

 private:
  const PieceTable* pieces_;
  std::vector<bool> is_text_;
  TokenId unknown_;
  std::string continuing_prefix_;
  int64_t most_characters_;
};

}  // namespace strata
