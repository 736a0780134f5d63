#pragma once

#include <memory>
#include <vector>

#include "text/added_tokens.h"
#include "text/normalizer.h"
#include "text/piece_decoder.h"
#include "text/piece_table.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"
#include "text/tokenizer.h"
#include "text/word_cache.h"

namespace strata {

// What a tokenizer is made of, in the order a text passes it: added tokens are cut out, the rest is
// normalized, cut into words, and each word encoded by the model. Both file kinds fill this.
struct TokenizerParts {
  std::unique_ptr<PieceTable> pieces;
  std::vector<TokenKind> kinds;  // one per piece
  AddedTokens added;             // looked for in the text as it comes
  AddedTokens added_normalized;  // looked for after the normalizers
  NormalizerList normalizers;
  PreTokenizerList pre_tokenizers;
  std::unique_ptr<TokenModel> model;  // may point to *pieces
  DecodeStepList decode_steps;
  bool decode_user_defined = false;  // user-defined pieces pass decode_steps too
  Tokenizer::Specials specials;
};

class PipelineTokenizer : public Tokenizer {
 public:
  explicit PipelineTokenizer(TokenizerParts parts);

  std::string token_bytes(TokenId id, bool at_start, bool show_control) const override;
  std::string_view piece(TokenId id) const override;
  TokenKind kind(TokenId id) const override;
  std::optional<TokenId> find_piece(std::string_view piece) const override;
  int64_t vocabulary_size() const override { return parts_.pieces->size(); }

 protected:
  std::vector<TokenId> encode_body(std::string_view text,
                                   std::span<const uint8_t> may_control) const override;

 private:
  void encode_fragment(std::string_view text, bool at_text_start, WordCache& cache,
                       std::vector<TokenId>& out) const;
  void encode_normalized(std::string_view text, bool at_text_start, WordCache& cache,
                         std::vector<TokenId>& out) const;
  size_t checked(TokenId id) const;

  TokenizerParts parts_;
  WordLength lone_splitter_ = nullptr;  // the only pre-tokenizer, when it is a hand-written one
};

}  // namespace strata
