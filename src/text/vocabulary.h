#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/piece_table.h"
#include "text/tokenizer.h"

namespace strata {

// The tokenizer metadata of a GGUF file (`tokenizer.ggml.*`), taken over as it lies there. What is
// wrong with it is found by tokenizer_from_vocabulary.
struct VocabularyData {
  std::string source;  // the file, for messages
  std::string model;   // tokenizer.ggml.model: "gpt2", "llama", "t5"
  std::string pre;     // tokenizer.ggml.pre; empty: not given
  std::unique_ptr<PieceTable> pieces = std::make_unique<PieceTable>();
  std::vector<float> scores;         // one per piece, or none
  std::vector<int32_t> token_types;  // one per piece, or none: 1 normal, 2 unknown, 3 control,
                                     // 4 user defined, 5 unused, 6 byte
  std::vector<std::string> merges;   // "left right"
  std::vector<char> precompiled_charsmap;

  // Ids by the last part of their key ("bos_token_id", "fim_pre_token_id", ...).
  std::vector<std::pair<std::string, int64_t>> special_ids;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
};

// Throws Error{data_corrupt} naming the key for metadata that contradicts itself, {unsupported} for
// a tokenizer model or pre-tokenizer that is not known (the message lists those that are). A
// special id outside the vocabulary is a warning and counts as not given.
std::unique_ptr<Tokenizer> tokenizer_from_vocabulary(VocabularyData data);

}  // namespace strata
