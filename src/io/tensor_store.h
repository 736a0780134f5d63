#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "numeric/tensor_type.h"

namespace strata {

// A tensor as it lies in a file. shape is row-major in PyTorch order: a matrix is [out, in]
// (GGUF's dimension list reversed). `bytes` points into a mapping owned by the TensorStore, may
// begin at any address (safetensors promises no alignment) and is exactly as long as shape and type
// say. A dimension may be 0 in safetensors.
struct StoredTensor {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  int file = 0;              // index into TensorStore::files()
  uint64_t file_offset = 0;  // of bytes[0] in that file

  int64_t rows() const {
    int64_t n = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) n *= shape[i];
    return n;
  }
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
};

// The tensors of one model, from one or several memory-mapped files (GGUF or safetensors). All
// sizes, offsets and overlaps were checked on opening.
class TensorStore {
 public:
  virtual ~TensorStore() = default;
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  virtual const StoredTensor* find(std::string_view name) const = 0;  // nullptr: not there
  virtual const std::vector<std::string>& files() const = 0;
  virtual uint64_t file_bytes() const = 0;  // all files together
  // Throws data_corrupt when a mapped file was truncated while it was read; call after reading.
  virtual void check_intact() const = 0;
  // Lets the kernel drop the pages of `part` (of a tensor's bytes; it was packed elsewhere and will
  // not be read soon). Thread-safe; reading it later fetches it from the file again.
  virtual void release_pages(std::span<const std::byte> part) const = 0;
};

}  // namespace strata
