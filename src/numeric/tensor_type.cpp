#include "numeric/tensor_type.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "numeric/blocks.h"

namespace strata {
namespace {

template <typename Block>
constexpr TensorTypeInfo block_info(TensorType type, std::string_view name) {
  return {type, name, Block::kElements, static_cast<int>(sizeof(Block))};
}

constexpr std::array<TensorTypeInfo, kTensorTypeCount> kInfos = {{
    {TensorType::f32, "F32", 1, 4},
    {TensorType::f16, "F16", 1, 2},
    {TensorType::bf16, "BF16", 1, 2},
    block_info<BlockQ4_0>(TensorType::q4_0, "Q4_0"),
    block_info<BlockQ4_1>(TensorType::q4_1, "Q4_1"),
    block_info<BlockQ5_0>(TensorType::q5_0, "Q5_0"),
    block_info<BlockQ5_1>(TensorType::q5_1, "Q5_1"),
    block_info<BlockQ8_0>(TensorType::q8_0, "Q8_0"),
    block_info<BlockQ2_K>(TensorType::q2_k, "Q2_K"),
    block_info<BlockQ3_K>(TensorType::q3_k, "Q3_K"),
    block_info<BlockQ4_K>(TensorType::q4_k, "Q4_K"),
    block_info<BlockQ5_K>(TensorType::q5_k, "Q5_K"),
    block_info<BlockQ6_K>(TensorType::q6_k, "Q6_K"),
    block_info<BlockIq4Nl>(TensorType::iq4_nl, "IQ4_NL"),
    block_info<BlockIq4Xs>(TensorType::iq4_xs, "IQ4_XS"),
    block_info<BlockInt8<64>>(TensorType::i8_g64, "I8_G64"),
    block_info<BlockInt8<128>>(TensorType::i8_g128, "I8_G128"),
    block_info<BlockInt4<64>>(TensorType::i4_g64, "I4_G64"),
    block_info<BlockInt4<128>>(TensorType::i4_g128, "I4_G128"),
    block_info<BlockInt4Offset<64>>(TensorType::i4z_g64, "I4Z_G64"),
    block_info<BlockInt4Offset<128>>(TensorType::i4z_g128, "I4Z_G128"),
}};

constexpr bool infos_are_in_order() {
  for (size_t i = 0; i < kInfos.size(); ++i)
    if (static_cast<size_t>(kInfos[i].type) != i) return false;
  return true;
}
static_assert(infos_are_in_order());

// ggml's numbering; "" where a number was never given out or its format was withdrawn (Q4_2, Q4_3
// and the row-interleaved Q4_0_4_4 family keep their names, for messages about old files).
constexpr std::array<std::string_view, 42> kGgufNames = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0",
};

}  // namespace

const TensorTypeInfo& tensor_type_info(TensorType type) {
  return kInfos[static_cast<size_t>(type)];
}

std::string_view gguf_type_name(uint32_t id) {
  return id < kGgufNames.size() ? kGgufNames[id] : std::string_view();
}

std::optional<TensorType> tensor_type_from_gguf(uint32_t id) {
  return tensor_type_named(gguf_type_name(id));
}

std::optional<uint32_t> gguf_id_of(TensorType type) {
  const auto* const found =
      std::find(kGgufNames.begin(), kGgufNames.end(), tensor_type_info(type).name);
  if (found == kGgufNames.end()) return std::nullopt;
  return static_cast<uint32_t>(found - kGgufNames.begin());
}

std::optional<TensorType> tensor_type_named(std::string_view name) {
  for (const TensorTypeInfo& info : kInfos)
    if (info.name == name) return info.type;
  return std::nullopt;
}

}  // namespace strata
