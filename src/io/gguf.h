#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/gguf_metadata.h"
#include "io/mapped_store.h"
#include "io/tensor_store.h"

namespace strata {

// What one GGUF file says, checked whole; the tensors' bytes point into the given bytes.
//
// Layout (version 2 and 3, little-endian; strings are a u64 length and that many bytes):
//   "GGUF", u32 version, u64 tensor count, u64 metadata count,
//   metadata: string key, u32 value type, value  (array: u32 element type, u64 count, elements),
//   tensors: string name, u32 n_dims, u64 dims[n_dims] (fastest first), u32 type, u64 offset,
//   zeros to a multiple of general.alignment (default 32), then the data `offset` counts from.
// Source: the format's specification (ggml, docs/gguf.md).
struct GgufContent {
  uint32_t version = 0;
  GgufMetadata metadata;
  uint64_t alignment = 0;
  uint64_t data_offset = 0;
  std::vector<StoredTensor> tensors;
};

// Limits beyond what the file's length implies; far above what models have.
inline constexpr uint64_t kMaxGgufKeys = 1 << 16;
inline constexpr uint64_t kMaxGgufTensors = 1 << 20;
inline constexpr uint64_t kMaxGgufNameBytes = (1 << 16) - 1;
inline constexpr int kMaxGgufDims = 4;
inline constexpr int kMaxGgufArrayDepth = 4;
inline constexpr uint64_t kMaxGgufAlignment = 1 << 20;

// Reads header, metadata and tensor table of a file's bytes. `file` is its name for messages.
// Errors: data_corrupt for anything that does not fit the file or the format, unsupported for
// versions and tensor types strata does not read; each names the file and the key, tensor or byte
// offset. Time and memory are bounded by the length of the file.
GgufContent parse_gguf(std::span<const std::byte> bytes, const std::string& file);

// A model from one GGUF file or from all parts of a split one.
class GgufStore final : public MappedTensorStore {
 public:
  GgufStore(uint32_t version, std::shared_ptr<const GgufMetadata> metadata)
      : version_(version), metadata_(std::move(metadata)) {}

  uint32_t version() const { return version_; }
  // Of the first part. Owns all it holds: nothing points into a mapping.
  const GgufMetadata& metadata() const { return *metadata_; }
  std::shared_ptr<const GgufMetadata> shared_metadata() const { return metadata_; }

 private:
  uint32_t version_;
  std::shared_ptr<const GgufMetadata> metadata_;
};

// Maps and checks `path`. For a split model (NAME-00001-of-0000N.gguf) any part may be named; all
// parts are opened, and their number, order and total of tensors must be what they say.
std::unique_ptr<GgufStore> open_gguf(const std::filesystem::path& path);

}  // namespace strata
