#pragma once

#include <array>
#include <memory>
#include <string>

#include "text/merge_table.h"
#include "text/piece_table.h"
#include "text/token_model.h"

namespace strata {

// Byte-pair encoding by ranked merges (GPT-2, Llama 3, Qwen; `BPE` in tokenizer.json).
struct BpeOptions {
  enum class Symbols {
    bytes,       // a word starts as its bytes; pieces are spelled in the byte alphabet
    characters,  // a word starts as its characters
  };
  Symbols symbols = Symbols::bytes;
  bool ignore_merges = false;  // a word that is a piece is that piece, whatever the merges say
  bool byte_fallback = false;  // characters without a piece become <0x..> tokens
  bool fuse_unknown = false;   // neighbouring unknown characters become one unknown token
  TokenId unknown = kNoToken;  // without one, what has no piece is left out, as the references do
};

class BpeModel : public TokenModel {
 public:
  // `pieces` outlives the model. `is_text[id]` says which pieces text may become (not control, not
  // byte tokens); merges into others were left out by the caller.
  BpeModel(const PieceTable& pieces, std::vector<bool> is_text, MergeTable merges,
           const BpeOptions& options);
  void encode(std::string_view word, std::vector<TokenId>& out) const override;

 private:
  TokenId find_text(std::string_view piece) const;
  void append_bytes(std::string_view word, std::vector<TokenId>& symbols) const;
  void append_characters(std::string_view word, std::vector<TokenId>& symbols) const;

  const PieceTable* pieces_;
  std::vector<bool> is_text_;
  MergeTable merges_;
  BpeOptions options_;
  // bytes: the piece of each byte; characters: its <0x..> token. kNoToken: none.
  std::array<TokenId, 256> byte_ids_;
};

}  // namespace strata
