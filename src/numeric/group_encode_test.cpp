#include "numeric/group_encode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "numeric/blocks.h"

namespace strata {
namespace {

constexpr TensorType kTypes[] = {TensorType::q8_0, TensorType::i8_g64,  TensorType::i8_g128,
                                 TensorType::q4_0, TensorType::i4_g64,  TensorType::i4_g128,
                                 TensorType::q4_1, TensorType::i4z_g64, TensorType::i4z_g128};

enum class Kind { int8, int4, offset };
Kind kind_of(TensorType type) {
  const std::string_view name = tensor_type_info(type).name;
  if (name[1] == '8') return Kind::int8;
  return name == "Q4_1" || name[2] == 'Z' ? Kind::offset : Kind::int4;
}

std::vector<float> decoded(TensorType type, const std::vector<float>& x) {
  const TensorTypeInfo& info = tensor_type_info(type);
  const size_t blocks = x.size() / static_cast<size_t>(info.block_elements);
  std::vector<std::byte> bytes(1 + blocks * static_cast<size_t>(info.block_bytes));
  EXPECT_TRUE(encode_groups(type, x.data(), bytes.data() + 1, static_cast<int64_t>(x.size())));
  std::vector<float> y(x.size());
  decode_elements(type, bytes.data() + 1, y.data(), static_cast<int64_t>(y.size()));
  return y;
}

TEST(GroupEncode, TheErrorIsHalfAStep) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  for (const TensorType type : kTypes) {
    const int group = tensor_type_info(type).block_elements;
    std::vector<float> x(static_cast<size_t>(16 * group));
    for (float& v : x) v = normal(random);
    const std::vector<float> y = decoded(type, x);
    for (size_t first = 0; first < x.size(); first += static_cast<size_t>(group)) {
      const auto [least, most] = std::minmax_element(
          x.begin() + static_cast<int64_t>(first), x.begin() + static_cast<int64_t>(first) + group);
      const double amax = std::max(std::fabs(*least), std::fabs(*most));
      // From the definition, without the code: the step, and what f16 moves the ends by.
      const double step = kind_of(type) == Kind::int8   ? amax / 127
                          : kind_of(type) == Kind::int4 ? amax / 8
                                                        : (double{*most} - *least) / 15;
      const double half_code = 2 * amax * 0x1p-11;
      for (size_t i = first; i < first + static_cast<size_t>(group); ++i) {
        const bool cut = kind_of(type) == Kind::int4 && std::fabs(x[i]) > 7.5 * step;
        EXPECT_LE(std::fabs(double{y[i]} - x[i]), (cut ? 1.0 : 0.5) * step + half_code)
            << tensor_type_info(type).name << " element " << i;
      }
    }
  }
}

// By hand, groups of 64: the extremes of each rule.
TEST(GroupEncode, CodesByHand) {
  std::vector<float> x(64, 0.0f);
  x[0] = -127, x[1] = 63.5f, x[33] = 1;
  BlockInt8<64> int8;
  ASSERT_TRUE(encode_groups(TensorType::i8_g64, x.data(), &int8, 64));
  EXPECT_EQ(int8.d, 0x3c00);  // 1
  EXPECT_EQ(int8.qs[0], -127);
  EXPECT_EQ(int8.qs[1], 64);  // 63.5: half to even
  EXPECT_EQ(int8.qs[33], 1);

  x[0] = -8, x[1] = 7, x[33] = -3;
  BlockInt4<64> int4;
  ASSERT_TRUE(encode_groups(TensorType::i4_g64, x.data(), &int4, 64));
  EXPECT_EQ(int4.d, 0x3c00);
  EXPECT_EQ(int4.qs[0], 0x80);   // columns 0 (code 0) and 16 (0: code 8)
  EXPECT_EQ(int4.qs[1], 0x8f);   // columns 1 (code 15) and 17
  EXPECT_EQ(int4.qs[17], 0x85);  // columns 33 (code 5) and 49

  for (int i = 0; i < 64; ++i) x[static_cast<size_t>(i)] = 2.0f + static_cast<float>(i % 16);
  BlockInt4Offset<64> offset;
  ASSERT_TRUE(encode_groups(TensorType::i4z_g64, x.data(), &offset, 64));
  EXPECT_EQ(offset.d, 0x3c00);
  EXPECT_EQ(offset.m, 0x4000);  // 2
  for (int j = 0; j < 32; ++j) EXPECT_EQ(offset.qs[j], (j % 16) * 0x11);
}

TEST(GroupEncode, ZerosAndConstantsAreExact) {
  for (const TensorType type : kTypes) {
    std::vector<float> x(128, 0.0f);
    for (float v : decoded(type, x)) EXPECT_EQ(v, 0.0f);
    if (kind_of(type) != Kind::offset) continue;
    std::fill(x.begin(), x.end(), 0.75f);
    for (float v : decoded(type, x)) EXPECT_EQ(v, 0.75f);
  }
}

TEST(GroupEncode, RefusesWhatHasNoCode) {
  std::byte out[144];
  for (const TensorType type : kTypes) {
    std::vector<float> x(128, 1.0f);
    for (const float bad : {NAN, INFINITY, -INFINITY, 1e30f}) {
      x[17] = bad;
      EXPECT_FALSE(encode_groups(type, x.data(), out, tensor_type_info(type).block_elements))
          << tensor_type_info(type).name << " " << bad;
    }
  }
}

TEST(GroupEncode, KnowsItsTypes) {
  for (int i = 0; i < kTensorTypeCount; ++i) {
    const auto type = static_cast<TensorType>(i);
    EXPECT_EQ(is_group_type(type),
              std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes));
  }
}

}  // namespace
}  // namespace strata
