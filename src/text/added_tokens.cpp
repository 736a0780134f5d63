#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/pre_tokenizer.h"
#include "text/unicode_class.h"

namespace strata {
namespace {

Utf8Step step_before(std::string_view text, size_t at) {
  size_t begin = at;
  while (begin > 0 && at - begin < 4) {
    --begin;
    if ((static_cast<unsigned char>(text[begin]) & 0xC0) != 0x80) break;
  }
  const Utf8Step step = decode_utf8(text.substr(begin, at - begin));
  if (step.valid && begin + static_cast<size_t>(step.length) == at) return step;
  return {0xFFFD, 1, false};
}

bool is_space(const Utf8Step& step) {
  return step.valid && (unicode_classes()[step.code_point] & kClassSpace) != 0;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, std::string_view source)
    : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string, TokenId>> entries;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    if (content.empty()) continue;
    if (content.size() > kLongestContent)
      fail(ErrorCode::unsupported, "{}: added token {} has {} bytes, at most {} are supported",
           source, tokens_[i].id, content.size(), kLongestContent);
    const auto first = static_cast<unsigned char>(content[0]);
    if (content.size() == 1)
      single_byte_.set(first);
    else
      first_two_.set(static_cast<size_t>(first) << 8 | static_cast<unsigned char>(content[1]));
    entries.emplace_back(content, static_cast<TokenId>(i));
  }
  trie_ = ByteTrie(std::move(entries));
}

const AddedToken* AddedTokens::longest_at(std::string_view text, size_t at, size_t from,
                                          std::span<const uint8_t> may_control) const {
  const AddedToken* best = nullptr;
  // While true, every byte from `at` may be control text.
  bool all_control = true;
  ByteTrie::Node node = ByteTrie::kRoot;
  for (size_t i = at; i < text.size(); ++i) {
    node = trie_.step(node, static_cast<unsigned char>(text[i]));
    if (node == ByteTrie::kNowhere) break;
    all_control = all_control && !may_control.empty() && may_control[i] != 0;
    const TokenId index = trie_.id_at(node);
    if (index == kNoToken) continue;
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    if (token.control && !all_control) continue;
    if (token.single_word) {
      const Utf8Step next = decode_utf8(text.substr(i + 1));
      const bool word_behind = next.length > 0 && next.valid && is_word_character(next.code_point);
      const Utf8Step before = at > from ? step_before(text, at) : Utf8Step{};
      if (word_behind || (before.valid && is_word_character(before.code_point))) continue;
    }
    best = &token;
  }
  return best;
}

AddedTokens::Match AddedTokens::find(std::string_view text, size_t from,
                                     std::span<const uint8_t> may_control) const {
  if (trie_.empty()) return {};
  for (size_t at = from; at < text.size(); ++at) {
    const auto first = static_cast<unsigned char>(text[at]);
    const bool two =
        at + 1 < text.size() &&
        first_two_.test(static_cast<size_t>(first) << 8 | static_cast<unsigned char>(text[at + 1]));
    if (!two && !single_byte_.test(first)) continue;
    const AddedToken* token = longest_at(text, at, from, may_control);
    if (token == nullptr) continue;
    Match match{at, at + token->content.size(), token->id};
    if (token->lstrip) {
      while (match.begin > from) {
        const Utf8Step before = step_before(text, match.begin);
        if (!is_space(before)) break;
        match.begin -= static_cast<size_t>(before.length);
      }
      match.begin = std::max(match.begin, from);
    }
    if (token->rstrip) {
      while (match.end < text.size()) {
        const Utf8Step next = decode_utf8(text.substr(match.end));
        if (!is_space(next)) break;
        match.end += static_cast<size_t>(next.length);
      }
    }
    return match;
  }
  return {};
}

}  // namespace strata
