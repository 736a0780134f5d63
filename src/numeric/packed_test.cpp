#include "numeric/packed.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "numeric/group_encode.h"
#include "numeric/tensor_type.h"

namespace strata {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): bytes without a pattern.
uint8_t random_byte(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return static_cast<uint8_t>(z >> 56);
}

class Packed : public testing::TestWithParam<int> {
 protected:
  TensorType type() const { return static_cast<TensorType>(GetParam()); }
};

// The decoder it is compared with is itself held to the gguf package's goldens; random bytes reach
// every code, scale and bit, NaN scales too.
TEST_P(Packed, UnpackingGivesTheBitsOfTheFile) {
  const TensorTypeInfo& info = tensor_type_info(type());
  for (int64_t blocks : {1, 2, 5}) {
    const int64_t in = blocks * info.block_elements, row_bytes = blocks * info.block_bytes;
    uint64_t state = static_cast<uint64_t>(GetParam() * 100 + blocks);
    std::vector<uint8_t> file(1 + kStripRows * row_bytes);  // rows at odd addresses
    for (uint8_t& b : file) b = random_byte(state);
    const std::byte* rows[kStripRows];
    for (int r = 0; r < kStripRows; ++r)
      rows[r] = reinterpret_cast<const std::byte*>(file.data()) + 1 + r * row_bytes;
    rows[6] = nullptr;
    std::vector<std::byte> strip(packed_strip_bytes(type(), in));
    pack_strip(type(), rows, in, info.block_bytes, strip.data());
    for (int r = 0; r < kStripRows; ++r) {
      std::vector<float> wanted(in, 0.0f), got(in);
      if (rows[r] != nullptr) decode_elements(type(), rows[r], wanted.data(), in);
      unpack_row(type(), strip.data(), r, in, got.data());
      for (int64_t i = 0; i < in; ++i) {
        if (rows[r] == nullptr) {
          ASSERT_EQ(got[i], 0.0f) << info.name << " row " << r << " column " << i;
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted[i]))
              << info.name << " row " << r << " column " << i;
        }
      }
    }
  }
}

TEST_P(Packed, TakesHardlyMoreRoomThanTheFile) {
  const TensorTypeInfo& info = tensor_type_info(type());
  const int64_t in = 8 * info.block_elements;
  const double file = 8.0 * static_cast<double>(8 * info.block_bytes);
  EXPECT_LE(static_cast<double>(packed_strip_bytes(type(), in)), 1.02 * file) << info.name;
  if (is_group_type(type())) {
    EXPECT_EQ(static_cast<double>(packed_strip_bytes(type(), in)), file) << info.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Packed, testing::Range(0, kTensorTypeCount), [](const auto& test) {
  return std::string(tensor_type_info(static_cast<TensorType>(test.param)).name);
});

// By hand: Q4_1, in = 32, row 0 counts 0..15 twice (byte j = j | j << 4), the others are zero.
TEST(PackedLayout, NibblesOfARow) {
  uint8_t block[20] = {0x00, 0x3c, 0x00, 0x40};  // d = 1, m = 2
  for (int j = 0; j < 16; ++j) block[4 + j] = static_cast<uint8_t>(j | j << 4);
  const std::byte* rows[kStripRows] = {reinterpret_cast<const std::byte*>(block)};
  std::byte strip[160];
  ASSERT_EQ(packed_strip_bytes(TensorType::q4_1, 32), 160);
  pack_strip(TensorType::q4_1, rows, 32, 0, strip);
  const auto at = [&](int i) { return std::to_integer<int>(strip[i]); };
  EXPECT_EQ(at(1), 0x3c);
  EXPECT_EQ(at(17), 0x40);
  for (int i = 2; i < 16; ++i) EXPECT_EQ(at(i), 0);
  for (int p = 0; p < 4; ++p)
    for (int i = 0; i < 4; ++i) EXPECT_EQ(at(32 + 32 * p + i), (4 * p + i) * 0x11);
}

// By hand: Q4_K, row 1 with s = 11 12 13 14 25 26 27 28, o = 39 3a 3b 3c 0d 0e 0f 01 (hexadecimal).
TEST(PackedLayout, SixBitScalesOfARow) {
  const uint8_t block[144] = {0,    0,    0,    0,      // d, dmin
                              0x91, 0x92, 0x93, 0x94,   // s[0..3], s[4..7] >> 4
                              0x39, 0x3a, 0x3b, 0x3c,   // o[0..3], o[4..7] >> 4
                              0xd5, 0xe6, 0xf7, 0x18};  // the low bits of both
  const std::byte* rows[kStripRows] = {nullptr, reinterpret_cast<const std::byte*>(block)};
  std::byte strip[1152];
  ASSERT_EQ(packed_strip_bytes(TensorType::q4_k, 256), 1152);
  pack_strip(TensorType::q4_k, rows, 256, 0, strip);
  const int planes[3][4] = {
      {0x91, 0xa2, 0xb3, 0xc4}, {0xd5, 0xe6, 0xf7, 0x18}, {0x39, 0x39, 0x39, 0x39}};
  for (int p = 0; p < 3; ++p)
    for (int i = 0; i < 32; ++i)
      EXPECT_EQ(std::to_integer<int>(strip[32 + 32 * p + i]), i / 4 == 1 ? planes[p][i % 4] : 0);
}

}  // namespace
}  // namespace strata
