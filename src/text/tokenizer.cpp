#include "text/tokenizer.h"

#include "base/error.h"
#include "base/utf8.h"

namespace strata {

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<uint8_t> marks;
  if (options.control == ControlText::parse) marks.assign(text.size(), 1);
  return with_specials(encode_body(text, marks), options.add_special);
}

std::vector<TokenId> Tokenizer::encode_marked(std::string_view text,
                                              std::span<const uint8_t> may_control,
                                              bool add_special) const {
  if (may_control.size() != text.size())
    fail(ErrorCode::invalid_argument, "encode_marked: {} marks for a text of {} bytes",
         may_control.size(), text.size());
  return with_specials(encode_body(text, may_control), add_special);
}

std::vector<TokenId> Tokenizer::with_specials(std::vector<TokenId> ids, bool add_special) const {
  if (!add_special) return ids;
  const Specials& s = specials_;
  if (s.add_bos && s.bos != kNoToken && (ids.empty() || ids.front() != s.bos))
    ids.insert(ids.begin(), s.bos);
  if (s.add_eos && s.eos != kNoToken && (ids.empty() || ids.back() != s.eos)) ids.push_back(s.eos);
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool show_control) const {
  std::string out;
  bool at_start = true;
  for (const TokenId id : ids) {
    out += token_bytes(id, at_start, show_control);
    at_start = at_start && is_silent(id, show_control);
  }
  return out;
}

bool Tokenizer::is_silent(TokenId id, bool show_control) const {
  const TokenKind k = kind(id);
  return !show_control && (k == TokenKind::control || k == TokenKind::unknown);
}

std::string StreamDecoder::push(TokenId id) {
  pending_ += tokenizer_->token_bytes(id, at_start_, show_control_);
  at_start_ = at_start_ && tokenizer_->is_silent(id, show_control_);
  const size_t whole = complete_utf8_prefix(pending_);
  std::string out = replace_invalid_utf8(std::string_view(pending_).substr(0, whole));
  pending_.erase(0, whole);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out = replace_invalid_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace strata
