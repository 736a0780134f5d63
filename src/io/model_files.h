#pragma once

#include <filesystem>
#include <memory>

#include "io/tensor_store.h"

namespace strata {

// The tensors of a model given as a .gguf file (or a part of a split one), a .safetensors file, or
// a Hugging Face folder. Errors as open_gguf and open_safetensors; unsupported for other files.
std::unique_ptr<TensorStore> open_model_files(const std::filesystem::path& path);

}  // namespace strata
