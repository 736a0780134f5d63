#pragma once

#include <array>
#include <vector>

#include "text/piece_table.h"
#include "text/token_model.h"

namespace strata {

// SentencePiece's BPE (`llama` in GGUF: Llama 2, Gemma): a word starts as its characters; of all
// neighbours whose joined text is a piece, the pair whose piece scores highest (of equals the
// leftmost) is joined, until none is left. What is no piece in the end falls apart into byte
// tokens.
class ScoreBpeModel : public TokenModel {
 public:
  // `pieces` outlives the model; scores: one per piece; is_text as for BpeModel. `unknown` stands
  // for bytes that have no <0x..> token (kNoToken: left out).
  ScoreBpeModel(const PieceTable& pieces, std::vector<float> scores, std::vector<bool> is_text,
                TokenId unknown);
  void encode(std::string_view word, std::vector<TokenId>& out) const override;

 private:
  struct Symbol {
    uint32_t begin, end;     // bytes of the word; begin == end: joined to its left neighbour
    int32_t previous, next;  // -1: none
  };
  TokenId find_text(std::string_view piece) const;
  void append_symbol(std::string_view text, std::vector<TokenId>& out) const;

  const PieceTable* pieces_;
  std::vector<float> scores_;
  std::vector<bool> is_text_;
  std::array<TokenId, 256> byte_ids_;
  size_t longest_ = 0;  // bytes of the longest piece that text may become
};

}  // namespace strata
