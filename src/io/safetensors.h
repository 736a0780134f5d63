#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/mapped_store.h"
#include "io/tensor_store.h"

namespace strata {

inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes, as the reference has it
inline constexpr uint64_t kMaxSafetensorsTensors = 1 << 20;
inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";
// Before the name of a tensor in a block format, as a key of the metadata.
inline constexpr std::string_view kBlockTypeKey = "strata.type.";

// What one safetensors file says, checked whole; the tensors' bytes point into the given bytes.
//
// Layout: u64 length of the header (little-endian), the header, the data. The header is JSON,
// beginning with '{' and possibly padded with blanks:
//   {"__metadata__": {text: text, ...},                                   (may be absent)
//    NAME: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
// Offsets count from the start of the data; the tensors cover it without hole or overlap.
//
// Block formats (numeric/blocks.h), an addition of ours: a tensor NAME [..., in] is stored as U8
// [..., bytes of a row], its blocks one after the other as in GGUF files, and the metadata of the
// same file has "strata.type.NAME": "I4_G64", the type's name. Its StoredTensor has that type and
// the shape [..., in]; such metadata without such a tensor is data_corrupt;
// SafetensorsContent::metadata does not have it.
// Source: the format's description (huggingface/safetensors, README, section "Format").
struct SafetensorsContent {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;
  // Tensors of types strata does not read (integer buffers, fp8): name and dtype.
  std::vector<std::pair<std::string, std::string>> unread;
};

// `file` is its name for messages. Errors: data_corrupt naming the file and what is wrong where
// (duplicate names, a file of another kind, a header that reaches past the end, ...); unsupported
// for a dtype whose size is not known. Time and memory are bounded by the length of the file.
SafetensorsContent parse_safetensors(std::span<const std::byte> bytes, const std::string& file);

class SafetensorsStore final : public MappedTensorStore {
 public:
  // Of all files together; where two give the same key, the first one's.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  void add(std::unique_ptr<MappedFile> file, SafetensorsContent content);

 private:
  std::map<std::string, std::string> metadata_;
};

// Opens NAME.safetensors, NAME.safetensors.index.json with all its shards, or a folder that has
// model.safetensors or model.safetensors.index.json. A tensor of a type strata does not read is an
// error only when find() is asked for it; one warning names the first of them.
std::unique_ptr<SafetensorsStore> open_safetensors(const std::filesystem::path& path);

}  // namespace strata
