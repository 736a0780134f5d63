#include "text/end_tokens.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace strata {
namespace {

using Names = std::initializer_list<std::string_view>;

}  // namespace

void find_end_tokens(const PieceTable& pieces, std::vector<TokenKind>& kinds,
                     Tokenizer::Specials& specials) {
  const auto find = [&](std::string_view name) {
    const TokenId id = pieces.find(name);
    if (id != kNoToken && name != "</s>") kinds[static_cast<size_t>(id)] = TokenKind::control;
    return id;
  };
  const auto complete = [&](TokenId& id, Names names) {
    for (const std::string_view name : names)
      if (id == kNoToken) id = find(name);
  };
  complete(specials.eot, {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
                          "<|end_of_text|>", "<EOT>", "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>",
                          "<end_of_utterance>"});
  complete(specials.fim_prefix, {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",
                                 "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>"});
  complete(specials.fim_suffix, {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>",
                                 "<SUF>", "▁<SUF>", "<|code_suffix|>"});
  complete(specials.fim_middle, {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>",
                                 "<MID>", "▁<MID>", "<|code_middle|>"});

  std::vector<TokenId>& ends = specials.end_of_generation;
  for (const TokenId id : {specials.eos, specials.eot})
    if (id != kNoToken) ends.push_back(id);
  for (const std::string_view name :
       {"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>",
        "<|endoftext|>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
        "<end_of_utterance>", "<eos>", "<｜end▁of▁sentence｜>",
        // After these a code model has left the file that was to be completed.
        "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<|repo_name|>", "<|fim_repo|>", "<fim-repo>",
        "<reponame>", "<|file_sep|>"})
    if (const TokenId id = find(name); id != kNoToken) ends.push_back(id);
  if (const TokenId id = pieces.find("</s>"); id != kNoToken)
    if (kinds[static_cast<size_t>(id)] == TokenKind::control) ends.push_back(id);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

}  // namespace strata
