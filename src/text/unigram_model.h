#pragma once

#include <array>
#include <vector>

#include "text/byte_trie.h"
#include "text/piece_table.h"
#include "text/token_model.h"

namespace strata {

// SentencePiece's unigram model (`t5` in GGUF, `Unigram` in tokenizer.json): of all ways to cut a
// word into pieces the one with the highest sum of scores, found by dynamic programming over bytes.
// A character that is no piece counts as unknown, 10 below the lowest score; of equal sums the one
// with the longer last piece stays. Unknown neighbours become one token, or their <0x..> tokens.
class UnigramModel : public TokenModel {
 public:
  struct Options {
    TokenId unknown = kNoToken;
    bool byte_fallback = false;
  };
  // is_text as for BpeModel; `scores`: one per piece (log probabilities; user-defined pieces 0).
  // is_normal[id]: the score counts for the lowest.
  UnigramModel(const PieceTable& pieces, std::vector<double> scores,
               const std::vector<bool>& is_text, const std::vector<bool>& is_normal,
               const Options& options);
  void encode(std::string_view word, std::vector<TokenId>& out) const override;

 private:
  void append_unknown(std::string_view text, std::vector<TokenId>& out) const;

  std::vector<double> scores_;
  ByteTrie trie_;
  Options options_;
  std::array<TokenId, 256> byte_ids_;
  double unknown_score_ = 0;
};

}  // namespace strata
