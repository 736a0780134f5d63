#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

using TokenId = int32_t;
inline constexpr TokenId kNoToken = -1;

enum class TokenKind : uint8_t { normal, unknown, control, user_defined, unused, byte };

// What may become a control token in a text.
enum class ControlText : uint8_t {
  as_text,  // spellings of control tokens stay text (the default everywhere)
  parse,    // spellings of control tokens become control tokens
};

struct EncodeOptions {
  ControlText control = ControlText::as_text;
  bool add_special = true;  // BOS / EOS as the model asks; never a second BOS
};

// Text to ids and back. Immutable after construction; every method may be called from any thread.
// Ids equal those of the reference implementation (tokenizers, sentencepiece, llama.cpp).
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // `text` is any bytes; ill-formed UTF-8 is encoded byte by byte where the vocabulary has bytes.
  // Time is linear in text.size() up to a logarithm, whatever the text.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Encodes a rendered chat prompt as one text: control tokens are recognised only where every byte
  // of the spelling has may_control[i] != 0. may_control.size() == text.size(). No BOS is added
  // when the text already begins with one.
  std::vector<TokenId> encode_marked(std::string_view text, std::span<const uint8_t> may_control,
                                     bool add_special) const;

  // The bytes of the ids, joined; control tokens give their spelling only with show_control.
  // The result can be ill-formed UTF-8; whole-answer callers replace (base/utf8.h).
  std::string decode(std::span<const TokenId> ids, bool show_control = false) const;
  // The bytes that `id` adds; at_start: no token before it gave text, where some models drop the
  // space that encoding put there. An id outside the vocabulary: Error{invalid_argument}.
  virtual std::string token_bytes(TokenId id, bool at_start, bool show_control) const = 0;
  // As the vocabulary spells it ("Ġthe", "▁the", "<0x0A>").
  virtual std::string_view piece(TokenId id) const = 0;
  virtual TokenKind kind(TokenId id) const = 0;
  virtual std::optional<TokenId> find_piece(std::string_view piece) const = 0;
  virtual int64_t vocabulary_size() const = 0;
  // Whether decoding leaves the token out: control and unknown tokens, unless they are shown.
  bool is_silent(TokenId id, bool show_control) const;

  struct Specials {
    TokenId bos = kNoToken, eos = kNoToken, eot = kNoToken, unknown = kNoToken, pad = kNoToken;
    TokenId fim_prefix = kNoToken, fim_suffix = kNoToken, fim_middle = kNoToken;
    bool add_bos = false, add_eos = false;
    std::vector<TokenId> end_of_generation;  // every id known to end an answer
    // What texts begin with, if anything.
    std::optional<TokenId> first() const { return add_bos ? std::optional(bos) : std::nullopt; }
  };
  const Specials& specials() const { return specials_; }
  Specials& specials() { return specials_; }

 protected:
  virtual std::vector<TokenId> encode_body(std::string_view text,
                                           std::span<const uint8_t> may_control) const = 0;
  Specials specials_;

 private:
  std::vector<TokenId> with_specials(std::vector<TokenId> ids, bool add_special) const;
};

// Ids in, whole UTF-8 characters out: bytes of an unfinished character wait for the next id.
class StreamDecoder {
 public:
  // at_start: the first id begins a text of its own; false for the continuation of a prompt, whose
  // leading space is part of it.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool show_control = false,
                         bool at_start = true)
      : tokenizer_(&tokenizer), at_start_(at_start), show_control_(show_control) {}
  // Whole characters that are certain now; ill-formed parts come as U+FFFD.
  std::string push(TokenId id);
  // The end: an unfinished character comes as one U+FFFD.
  std::string finish();
  // Bytes that wait for the rest of their character.
  const std::string& pending() const { return pending_; }

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
  bool at_start_;
  bool show_control_;
};

}  // namespace strata
