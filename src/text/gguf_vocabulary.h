#pragma once

#include <memory>

#include "io/gguf_metadata.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace strata {

// The tokenizer metadata of a GGUF file. Throws Error{data_corrupt} naming the key for a missing
// model or vocabulary and for values of a wrong type.
VocabularyData vocabulary_from_gguf(const GgufMetadata& metadata);

// tokenizer_from_vocabulary of it.
std::unique_ptr<Tokenizer> tokenizer_from_gguf(const GgufMetadata& metadata);

}  // namespace strata
