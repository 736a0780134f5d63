#pragma once

#include <vector>

#include "text/piece_table.h"
#include "text/tokenizer.h"

namespace strata {

// Completes `specials` from well-known spellings, as llama.cpp does, because many files name only
// one of their end tokens: eot ("<|im_end|>", "<|eot_id|>", ...), the fill-in-the-middle tokens,
// and end_of_generation (eos, eot and every spelling known to end an answer; sorted, each once). A
// token found so that the file calls plain text becomes a control token ("</s>" apart, which
// Gemma's vocabulary has as an HTML tag).
void find_end_tokens(const PieceTable& pieces, std::vector<TokenKind>& kinds,
                     Tokenizer::Specials& specials);

}  // namespace strata
