#pragma once

#include "text/json_components.h"
#include "text/piece_table.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace strata {

// Beginning and end of text: which tokens they are (tokenizer_config.json, then
// special_tokens_map.json, then the post-processor) and whether encoding adds them (the
// post-processor; for the Llama and Gemma classes, which build theirs anew, add_bos_token and
// add_eos_token of tokenizer_config.json). generation_config.json adds end tokens. Throws
// Error{unsupported} for a post-processor that adds anything else.
void read_json_specials(const JsonPlace& root, const TokenizerFiles& files,
                        const PieceTable& pieces, Tokenizer::Specials& specials);

}  // namespace strata
