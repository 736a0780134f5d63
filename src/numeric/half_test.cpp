#include "numeric/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

namespace strata {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// half.bin: floats, then their f16 encodings (numpy), then their bf16 encodings (gguf).
TEST(Half, EncodesAsNumpyAndGguf) {
  std::ifstream in("tests/golden/formats/half.bin", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  const size_t count = bytes.size() / 8;
  ASSERT_GT(count, 2000u);
  for (size_t i = 0; i < count; ++i) {
    float value = 0;
    uint16_t f16 = 0, bf16 = 0;
    std::memcpy(&value, &bytes[4 * i], 4);
    std::memcpy(&f16, &bytes[4 * count + 2 * i], 2);
    std::memcpy(&bf16, &bytes[6 * count + 2 * i], 2);
    ASSERT_EQ(encode_f16(value), f16) << value;
    ASSERT_EQ(encode_bf16(value), bf16) << value;
  }
}

TEST(Half, DecodesByDefinition) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const double sign = bits & 0x8000 ? -1 : 1;
    const float got = decode_f16(static_cast<uint16_t>(bits));
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(got));
      EXPECT_EQ(std::signbit(got), sign < 0);
      continue;
    }
    double want = exponent == 31  ? sign * std::numeric_limits<double>::infinity()
                  : exponent == 0 ? sign * std::ldexp(fraction, -24)
                                  : sign * std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(static_cast<double>(got), want) << bits;
    ASSERT_EQ(std::signbit(got), sign < 0) << bits;
    ASSERT_EQ(encode_f16(got), bits);
  }
  EXPECT_EQ(decode_bf16(0x3f80), 1.0f);
  EXPECT_EQ(decode_bf16(0xff80), -kInfinity);
  EXPECT_EQ(std::bit_cast<uint32_t>(decode_bf16(0x0001)), 0x00010000u);
}

TEST(Half, BordersByHand) {
  EXPECT_EQ(encode_f16(65504.0f), 0x7bff);
  EXPECT_EQ(encode_f16(65519.99f), 0x7bff);
  EXPECT_EQ(encode_f16(65520.0f), 0x7c00);
  EXPECT_EQ(encode_f16(-kInfinity), 0xfc00);
  EXPECT_EQ(encode_f16(0x1p-25f), 0x0000);      // a tie, to even
  EXPECT_EQ(encode_f16(0x1.8p-24f), 0x0002);    // a tie, to even, upwards
  EXPECT_EQ(encode_f16(0x1.ffcp-15f), 0x0400);  // a tie between 0x3ff and 2^-14
  EXPECT_EQ(encode_f16(-0.0f), 0x8000);
  EXPECT_EQ(encode_bf16(0x1.01p0f), 0x3f80);  // a tie, to even
  EXPECT_EQ(encode_bf16(0x1.03p0f), 0x3f82);
  EXPECT_EQ(encode_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(encode_bf16(kInfinity), 0x7f80);
}

TEST(Half, NanStaysNan) {
  // The payload lies in bits that both 16-bit formats drop; rounding must not make infinity of it.
  const float low_payload = std::bit_cast<float>(0xff800001u);
  EXPECT_EQ(encode_f16(low_payload), 0xfe00);
  EXPECT_EQ(encode_bf16(low_payload), 0xffc0);
  const float all_ones = std::bit_cast<float>(0x7fffffffu);
  EXPECT_EQ(encode_f16(all_ones), 0x7fff);
  EXPECT_EQ(encode_bf16(all_ones), 0x7fff);
}

}  // namespace
}  // namespace strata
