#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "numeric/tensor_type.h"

namespace strata {
namespace {

const std::string kGoldens = "tests/golden/formats/";

std::vector<char> read_golden(const std::string& name) {
  std::ifstream in(kGoldens + name, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << kGoldens + name;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<uint32_t> float_bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (float v : values) bits.push_back(std::bit_cast<uint32_t>(v));
  return bits;
}

class BlockFormat : public testing::TestWithParam<TensorType> {};

// The golden floats come from the `gguf` package; the arithmetic has the same order, so the bits
// are equal and no tolerance is needed.
TEST_P(BlockFormat, DecodesToTheBitsOfTheGgufPackage) {
  const TensorTypeInfo& info = tensor_type_info(GetParam());
  const std::string name(info.name);
  const std::vector<char> blocks = read_golden(name + ".bin");
  const std::vector<char> golden = read_golden(name + ".f32");
  const int64_t count =
      static_cast<int64_t>(blocks.size()) / info.block_bytes * info.block_elements;
  ASSERT_GT(count, 0);
  ASSERT_EQ(golden.size(), static_cast<size_t>(count) * sizeof(float));
  std::vector<float> want(static_cast<size_t>(count));
  std::memcpy(want.data(), golden.data(), golden.size());

  for (size_t misalignment : {0u, 1u, 3u}) {
    std::vector<char> shifted(misalignment, 'x');
    shifted.insert(shifted.end(), blocks.begin(), blocks.end());
    std::vector<float> got(static_cast<size_t>(count));
    decode_elements(GetParam(), shifted.data() + misalignment, got.data(), count);
    EXPECT_EQ(float_bits(got), float_bits(want)) << name << " misaligned by " << misalignment;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockFormat,
                         testing::Values(TensorType::q4_0, TensorType::q4_1, TensorType::q5_0,
                                         TensorType::q5_1, TensorType::q8_0, TensorType::q2_k,
                                         TensorType::q3_k, TensorType::q4_k, TensorType::q5_k,
                                         TensorType::q6_k, TensorType::iq4_nl, TensorType::iq4_xs),
                         [](const auto& test) {
                           return std::string(tensor_type_info(test.param).name);
                         });

// By hand: d = 0.5 (f16 0x3800), q[0] = 0xa, q[16] = 0x3.
TEST(Decode, Q4_0ByHand) {
  std::vector<uint8_t> block(18, 0x88);
  block[0] = 0x00, block[1] = 0x38, block[2] = 0x3a;
  std::vector<float> out(32);
  decode_elements(TensorType::q4_0, block.data(), out.data(), 32);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[16], -2.5f);
  EXPECT_EQ(out[1], 0.0f);
}

TEST(Decode, PlainTypes) {
  const std::vector<float> values = {1.5f, -2.0f, 0.0f};
  std::vector<float> out(3);
  decode_elements(TensorType::f32, values.data(), out.data(), 3);
  EXPECT_EQ(out, values);
  const std::vector<uint16_t> f16 = {0x3e00, 0xc000, 0x0000};
  decode_elements(TensorType::f16, f16.data(), out.data(), 3);
  EXPECT_EQ(out, values);
  const std::vector<uint16_t> bf16 = {0x3fc0, 0xc000, 0x0000};
  decode_elements(TensorType::bf16, bf16.data(), out.data(), 3);
  EXPECT_EQ(out, values);
  decode_elements(TensorType::q8_0, nullptr, nullptr, 0);
}

}  // namespace
}  // namespace strata
