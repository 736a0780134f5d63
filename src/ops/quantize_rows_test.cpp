#include "ops/quantize_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "ops/random_matrix_for_test.h"

namespace strata {
namespace {

ActivationBlock quantize_block(IsaLevel level, const std::vector<float>& values) {
  ActivationBlock block;
  kernel_table(level).matmul->quantize_row(values.data(), 32, &block);
  return block;
}

std::vector<IsaLevel> levels() { return available_isa_levels(detect_cpu_features()); }

// By hand: the largest is 127, so the scale is 1 and halves go to the even neighbour.
TEST(QuantizeRow, RoundsHalfToEven) {
  std::vector<float> x(32, 0.0f);
  const float in[] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.49f, -126.51f};
  const int wanted[] = {127, 0, 2, 2, 0, -2, -2, 126, -127};
  std::copy(std::begin(in), std::end(in), x.begin());
  x[31] = -3.2f;
  for (IsaLevel level : levels()) {
    const ActivationBlock b = quantize_block(level, x);
    for (int i = 0; i < 9; ++i) EXPECT_EQ(b.q[i], wanted[i]) << i;
    EXPECT_EQ(b.q[31], -3);
    EXPECT_EQ(b.scale, 1.0f);
    EXPECT_EQ(b.sums[0], 126);
    EXPECT_EQ(b.sums[1], -3);
    EXPECT_EQ(b.scaled_sum, 123.0f);
  }
}

TEST(QuantizeRow, ErrsByHalfAStep) {
  TestRandom random(1);
  for (double size : {1e-20, 1e-3, 1.0, 1e6, 1e37}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<float> x(32);
      float amax = 0;
      for (float& v : x) {
        v = static_cast<float>(random.uniform() * size);
        amax = std::max(amax, std::fabs(v));
      }
      for (IsaLevel level : levels()) {
        const ActivationBlock b = quantize_block(level, x);
        EXPECT_EQ(b.scale, amax / 127.0f);
        int sums[2] = {0, 0};
        for (int i = 0; i < 32; ++i) {
          sums[i / 16] += b.q[i];
          EXPECT_LE(std::abs(b.q[i]), 127);
          EXPECT_LE(std::fabs(static_cast<double>(b.q[i]) * double{b.scale} - double{x[i]}),
                    (0.5 + 127 * 0x1p-22) * double{b.scale});
        }
        EXPECT_EQ(b.sums[0], sums[0]);
        EXPECT_EQ(b.sums[1], sums[1]);
      }
    }
  }
}

TEST(QuantizeRow, ZeroAndNotFiniteBlocks) {
  for (IsaLevel level : levels()) {
    for (float tiny : {0.0f, -0.0f, 1e-31f, std::numeric_limits<float>::denorm_min()}) {
      const ActivationBlock b = quantize_block(level, std::vector<float>(32, tiny));
      EXPECT_EQ(b.scale, 0.0f);
      EXPECT_EQ(b.scaled_sum, 0.0f);
      for (int8_t q : b.q) EXPECT_EQ(q, 0);
    }
    for (float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
      std::vector<float> x(32, 1.0f);
      x[17] = bad;
      const ActivationBlock b = quantize_block(level, x);
      EXPECT_TRUE(std::isnan(b.scale));
      EXPECT_TRUE(std::isnan(b.scaled_sum));
    }
    const float most = std::numeric_limits<float>::max();
    EXPECT_EQ(quantize_block(level, std::vector<float>(32, most)).q[5], 127);
  }
}

TEST(QuantizeRow, LevelsGiveTheSameBytes) {
  TestRandom random(2);
  std::vector<float> x(32 * 9);
  for (float& v : x) v = static_cast<float>(random.uniform());
  std::vector<ActivationBlock> scalar(9), other(9);
  kernel_table(IsaLevel::scalar).matmul->quantize_row(x.data(), 288, scalar.data());
  for (IsaLevel level : levels()) {
    kernel_table(level).matmul->quantize_row(x.data(), 288, other.data());
    EXPECT_EQ(std::memcmp(scalar.data(), other.data(), 9 * sizeof(ActivationBlock)), 0);
  }
}

TEST(QuantizeRows, EveryRowAndOddColumnsRefused) {
  ThreadPool pool(2);
  const OpContext context{&kernel_table(IsaLevel::scalar), &pool};
  Arena arena;
  const Tensor x = arena.tensor(DType::f32, 700, 64);
  TestRandom random(3);
  for (int64_t r = 0; r < 700; ++r)
    for (int64_t c = 0; c < 64; ++c) x.row<float>(r)[c] = static_cast<float>(random.uniform());
  const QuantizedRows q = quantize_rows(x, arena, context);
  for (int64_t r = 0; r < 700; ++r) {
    ActivationBlock alone[2];
    context.kernels->matmul->quantize_row(x.row<float>(r), 64, alone);
    ASSERT_EQ(std::memcmp(alone, q.blocks + r * q.stride, sizeof(alone)), 0) << r;
  }
  EXPECT_THROW(quantize_rows(arena.tensor(DType::f32, 1, 33), arena, context), Error);
}

}  // namespace
}  // namespace strata
