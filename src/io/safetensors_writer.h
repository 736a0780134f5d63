#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "numeric/tensor_type.h"

namespace strata {

struct SafetensorsTensor {
  std::string name;
  TensorType type = TensorType::f32;  // block formats as safetensors.h says
  std::vector<int64_t> shape;         // PyTorch order; of elements, for block formats too
  std::span<const std::byte> bytes;   // row-major, little-endian
};

// Writes `tensors` in their order, beside `path` and renamed when whole, so a reader that has the
// old file mapped keeps it. Whatever it writes, parse_safetensors reads: it refuses
// (invalid_argument, before any file is made) a tensor called __metadata__, other names and sizes
// the reader refuses, a header above the reader's limit, and metadata that is not well-formed UTF-8
// or has keys of block formats, which come from the tensors' types. No tensors at all is a valid
// file.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const SafetensorsTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

// Length field and header alone, as write_safetensors puts them before the data.
std::string safetensors_header(std::span<const SafetensorsTensor> tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace strata
