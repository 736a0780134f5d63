#pragma once

#include <filesystem>
#include <memory>

#include "text/tokenizer.h"

namespace strata {

// The tokenizer of a model: of a .gguf file's metadata or of a Hugging Face folder's
// tokenizer.json. Throws what gguf_vocabulary.h and tokenizer_json.h say, {not_found} for a path
// that is not there.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model);

}  // namespace strata
