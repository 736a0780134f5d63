#pragma once

#include <filesystem>
#include <memory>

#include "io/gguf_metadata.h"
#include "text/tokenizer.h"

namespace strata {

// The tokenizer in a GGUF file's metadata (`tokenizer.ggml.*`). Errors: data_corrupt naming file
// and key, unsupported for a model or pre-tokenizer that is not known.
std::unique_ptr<Tokenizer> tokenizer_from_gguf(const GgufMetadata& metadata);

// Of a .gguf file or a Hugging Face folder. The file is read for it alone; who has its metadata
// already calls tokenizer_from_gguf.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace strata
