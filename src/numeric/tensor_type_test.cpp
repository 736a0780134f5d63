#include "numeric/tensor_type.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(TensorType, GgufNumbers) {
  // From ggml's enumeration.
  EXPECT_EQ(tensor_type_from_gguf(0), TensorType::f32);
  EXPECT_EQ(tensor_type_from_gguf(1), TensorType::f16);
  EXPECT_EQ(tensor_type_from_gguf(8), TensorType::q8_0);
  EXPECT_EQ(tensor_type_from_gguf(12), TensorType::q4_k);
  EXPECT_EQ(tensor_type_from_gguf(20), TensorType::iq4_nl);
  EXPECT_EQ(tensor_type_from_gguf(23), TensorType::iq4_xs);
  EXPECT_EQ(tensor_type_from_gguf(30), TensorType::bf16);
  EXPECT_EQ(tensor_type_from_gguf(16), std::nullopt);
  EXPECT_EQ(tensor_type_from_gguf(77), std::nullopt);
  EXPECT_EQ(tensor_type_from_gguf(0xffffffffu), std::nullopt);
}

TEST(TensorType, NamesOfUnreadTypes) {
  EXPECT_EQ(gguf_type_name(16), "IQ2_XXS");
  EXPECT_EQ(gguf_type_name(28), "F64");
  EXPECT_EQ(gguf_type_name(29), "IQ1_M");
  EXPECT_EQ(gguf_type_name(35), "TQ2_0");
  EXPECT_EQ(gguf_type_name(39), "MXFP4");
  EXPECT_EQ(gguf_type_name(41), "Q1_0");
  EXPECT_EQ(gguf_type_name(42), "");
}

TEST(TensorType, NumberAndNameLeadBackToTheType) {
  int ours = 0;
  for (int i = 0; i < kTensorTypeCount; ++i) {
    const auto type = static_cast<TensorType>(i);
    EXPECT_EQ(tensor_type_named(tensor_type_info(type).name), type);
    if (const auto id = gguf_id_of(type))
      EXPECT_EQ(tensor_type_from_gguf(*id), type);
    else
      ++ours;
  }
  EXPECT_EQ(ours, 6);
  EXPECT_EQ(tensor_type_named(""), std::nullopt);
  EXPECT_EQ(tensor_type_named("i8_g64"), std::nullopt);
}

TEST(TensorType, BlockSizes) {
  EXPECT_EQ(tensor_type_info(TensorType::q4_k).name, "Q4_K");
  EXPECT_EQ(tensor_type_info(TensorType::q4_k).block_elements, 256);
  EXPECT_EQ(tensor_type_info(TensorType::q4_k).block_bytes, 144);
  EXPECT_EQ(tensor_type_info(TensorType::q6_k).block_bytes, 210);
  EXPECT_EQ(tensor_type_info(TensorType::bf16).block_bytes, 2);
}

}  // namespace
}  // namespace strata
