#pragma once

#include <string>

#include "io/tensor_store.h"

namespace strata {

// sha256 over, for each file, its header (all bytes before its first tensor), and for each tensor
// its name, type, shape and some of its bytes; `config` is what lies in other files. It tells
// models and conversions apart without reading the weights; it is no proof that a file is intact.
std::string model_hash(const TensorStore& store, std::string_view config);

}  // namespace strata
