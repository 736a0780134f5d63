#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace strata {

// Storage formats of tensors in model files. A type has blocks of `block_elements` consecutive
// elements of a row in `block_bytes` bytes; a row is a whole number of blocks. Those of GGUF files
// come first, those of our own behind them (groups of 32 are q8_0, q4_0 and q4_1).
enum class TensorType : uint8_t {
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  i8_g64,
  i8_g128,
  i4_g64,
  i4_g128,
  i4z_g64,
  i4z_g128,
};
inline constexpr int kTensorTypeCount = 21;

struct TensorTypeInfo {
  TensorType type;
  std::string_view name;  // as people write it: "Q4_K"
  int block_elements;
  int block_bytes;
};

const TensorTypeInfo& tensor_type_info(TensorType type);
// The types of GGUF by their number in the file; nullopt for those strata does not read.
std::optional<TensorType> tensor_type_from_gguf(uint32_t id);
// The number of `type` in GGUF files; nullopt for formats of our own.
std::optional<uint32_t> gguf_id_of(TensorType type);
// The type of that name, exactly as tensor_type_info spells it.
std::optional<TensorType> tensor_type_named(std::string_view name);
// The spelling of a GGUF type number, also of unread ones ("IQ2_XXS"), for messages; "" if unknown.
std::string_view gguf_type_name(uint32_t id);

// Decodes `count` consecutive elements (a multiple of block_elements) to f32, as ggml defines each
// format: bit layouts are documented in numeric/blocks.h. Any alignment of `source`.
void decode_elements(TensorType type, const void* source, float* out, int64_t count);

}  // namespace strata
