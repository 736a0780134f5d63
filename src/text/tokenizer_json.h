#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace strata {

// The files of a Hugging Face folder that say how to tokenize, as text.
struct TokenizerFiles {
  std::string source;          // name of tokenizer.json, for messages
  std::string tokenizer;       // tokenizer.json
  std::string config;          // tokenizer_config.json; empty: not there
  std::string special_tokens;  // special_tokens_map.json; empty: not there
  std::string generation;      // generation_config.json; empty: not there
};

// BPE, Unigram, WordLevel and WordPiece. Ids equal those of the `tokenizers` package, except that
// spellings of special tokens stay text unless the caller lets them be control tokens, and that
// "<0x41>" in a text is never the byte token. Throws Error{data_corrupt} naming file and place,
// Error{unsupported} naming a component that is not implemented.
std::unique_ptr<Tokenizer> tokenizer_from_json(const TokenizerFiles& files);

// Reads the files of `folder`; tokenizer.json must be there (Error{not_found}).
std::unique_ptr<Tokenizer> tokenizer_from_folder(const std::filesystem::path& folder);

}  // namespace strata
