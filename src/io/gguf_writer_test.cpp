#include "io/gguf_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "io/gguf.h"

namespace strata {
namespace {

// Byte for byte by the format's description.
TEST(GgufWriter, LayoutByHand) {
  GgufWriter writer;
  const float value = 1.0f;
  writer.set("k", GgufValue::of_u32(7));
  writer.add_tensor("t", TensorType::f32, {1}, std::as_bytes(std::span(&value, 1)));
  std::string want("GGUF\3\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 24);
  want += std::string("\1\0\0\0\0\0\0\0k\4\0\0\0\7\0\0\0", 17);
  want += std::string("\1\0\0\0\0\0\0\0t\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 33);
  want.append(96 - want.size(), '\0');
  want += std::string("\0\0\x80\x3f", 4);
  want.append(28, '\0');
  EXPECT_EQ(writer.bytes(), want);
}

TEST(GgufWriter, WhatItWritesIsRead) {
  const std::vector<std::byte> block(2 * 144);
  GgufWriter writer;
  writer.set("general.alignment", GgufValue::of_u32(64));
  writer.set("flag", GgufValue::of_bool(true));
  writer.set("i", GgufValue::of_i32(-5));
  writer.set("f", GgufValue::of_f32(0.1f));
  writer.set("n", GgufValue::of_u64(1ull << 40));
  writer.set("texts", GgufValue::of_strings({"x", "yz"}));
  writer.set("ints", GgufValue::of_i32s({-1, 2}));
  writer.set("i", GgufValue::of_i32(-6));
  writer.add_tensor("q", TensorType::q4_k, {2, 256}, block);
  const std::string bytes = writer.bytes();
  const GgufContent content = parse_gguf(std::as_bytes(std::span(bytes.data(), bytes.size())), "m");
  EXPECT_EQ(content.alignment, 64u);
  EXPECT_TRUE(content.metadata.get_bool("flag"));
  EXPECT_EQ(content.metadata.find_i32("i"), -6);
  EXPECT_EQ(content.metadata.get_f32("f"), 0.1f);
  EXPECT_EQ(content.metadata.get_u64("n"), 1ull << 40);
  EXPECT_EQ(content.metadata.get_strings("texts")[1], "yz");
  EXPECT_EQ(content.metadata.get_i32s("ints"), (std::vector<int32_t>{-1, 2}));
  EXPECT_EQ(content.tensors[0].shape, (std::vector<int64_t>{2, 256}));
  EXPECT_EQ(content.tensors[0].type, TensorType::q4_k);
}

TEST(GgufWriter, RefusesWhatCouldNotBeRead) {
  const std::vector<std::byte> bytes(128);
  GgufWriter writer;
  writer.add_tensor("a", TensorType::f32, {32}, bytes);
  EXPECT_THROW(writer.add_tensor("a", TensorType::f32, {32}, bytes), Error);
  EXPECT_THROW(writer.add_tensor("b", TensorType::f32, {31}, bytes), Error);
  EXPECT_THROW(writer.add_tensor("c", TensorType::f32, {-32}, bytes), Error);
  EXPECT_THROW(writer.add_tensor("d", TensorType::f32, {1, 1, 1, 1, 32}, bytes), Error);
  EXPECT_THROW(writer.add_tensor("e", TensorType::q4_0, {16}, bytes), Error);
  EXPECT_THROW(writer.add_tensor("../f", TensorType::f32, {32}, bytes), Error);
  EXPECT_THROW(writer.set("", GgufValue::of_u32(1)), Error);
  writer.set("general.alignment", GgufValue::of_u32(48));
  EXPECT_THROW(writer.bytes(), Error);
}

}  // namespace
}  // namespace strata
