#include "ops/linear.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "ops/random_matrix_for_test.h"
#include "support/tested_levels.h"

namespace strata {
namespace {

constexpr double kUnit = 0x1p-24;  // half an ulp of f32

struct Case {
  TensorType type;
  int64_t tokens, out, in;
  TestCodes codes = TestCodes::random;
};

std::string describe(const Case& c) {
  return std::string(tensor_type_info(c.type).name) + " M=" + std::to_string(c.tokens) +
         " out=" + std::to_string(c.out) + " in=" + std::to_string(c.in);
}

// One list for values, batches and levels: every type; tokens around the tile, rows around the
// strip, columns around the block (any number for the float types).
std::vector<Case> cases() {
  std::vector<Case> list;
  for (int i = 0; i < kTensorTypeCount; ++i) {
    const auto type = static_cast<TensorType>(i);
    const int block = tensor_type_info(type).block_elements;
    const int64_t unit = block == 1 ? 33 : block;
    for (int64_t tokens : {1, 2, 3, 5, 8, 17, 33}) list.push_back({type, tokens, 40, 2 * unit});
    for (int64_t out : {1, 7, 8, 9, 15, 16, 17, 25, 33, 40}) list.push_back({type, 5, out, unit});
    for (int64_t out : {39, 71}) list.push_back({type, 1, out, unit});
    // Panels that lack strips: vectors hold one strip or two, panels two vectors.
    for (int64_t out : {8, 17, 24, 31, 57, 64}) list.push_back({type, 13, out, unit});
    if (block == 1)
      for (int64_t in : {1, 7, 31, 32, 129}) list.push_back({type, 6, 19, in});
    if (block == 32)
      for (int64_t in : {96, 512}) list.push_back({type, 6, 19, in});
    if (block != 1) {
      list.push_back({type, 4, 16, unit, TestCodes::largest});
      list.push_back({type, 4, 16, unit, TestCodes::smallest});
      list.push_back({type, 14, 24, unit, TestCodes::largest});
      list.push_back({type, 14, 24, unit, TestCodes::smallest});
    }
  }
  return list;
}

struct Activations {
  std::vector<float> values;
  Tensor tensor;
};

Activations make_activations(const Case& c, uint64_t seed) {
  Activations a;
  TestRandom random(seed);
  a.values.resize(static_cast<size_t>(c.tokens * c.in));
  for (float& v : a.values) v = static_cast<float>(random.uniform());
  // Extremes: everything +-127, tokens of one sign among them, for the 16-bit sums.
  if (c.codes != TestCodes::random)
    for (size_t i = 0; i < a.values.size(); ++i) {
      const int64_t token = static_cast<int64_t>(i) / c.in;
      a.values[i] = token == 0            ? 127.0f
                    : token == 1          ? -127.0f
                    : (random.bits() & 1) ? 127.f
                                          : -127.f;
    }
  a.tensor.dtype = DType::f32;
  a.tensor.rows = c.tokens;
  a.tensor.columns = c.in;
  a.tensor.stride = c.in;
  a.tensor.data = a.values.data();
  return a;
}

Tensor rows_of(const Tensor& t, int64_t first, int64_t count) {
  Tensor part = t;
  part.rows = count;
  part.data = t.row<float>(first);
  return part;
}

struct Result {
  std::vector<float> y;
  std::vector<ActivationBlock> blocks;
};

Result run(const PackedMatrix& w, const Tensor& x, const float* bias, const KernelTable& kernels,
           ThreadPool& pool, bool residual = false) {
  const OpContext context{&kernels, &pool};
  Arena arena;
  LinearInput input;
  input.x = x;
  if (w.quantised()) input.quantized = quantize_rows(x, arena, context);
  if (residual) input.residual = quantize_residual(x, input.quantized, arena, context);
  Result result;
  if (w.quantised())
    result.blocks.assign(input.quantized.blocks,
                         input.quantized.blocks + x.rows * input.quantized.stride);
  result.y.assign(static_cast<size_t>(x.rows * w.out()), NAN);
  Tensor y;
  y.dtype = DType::f32;
  y.rows = x.rows;
  y.columns = y.stride = w.out();
  y.data = result.y.data();
  linear({&w, bias, y}, input, context);
  return result;
}

std::vector<float> make_bias(int64_t out) {
  std::vector<float> bias(out);
  for (int64_t r = 0; r < out; ++r) bias[r] = 0.25f * static_cast<float>(r % 7 - 3);
  return bias;
}

std::vector<uint32_t> bits(const std::vector<float>& values) {
  std::vector<uint32_t> out;
  for (float v : values) out.push_back(std::bit_cast<uint32_t>(v));
  return out;
}

double round_to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}

class LinearLevels : public LevelTest {};

// Against f64 on what decode_elements (held to the gguf package) gives, within the bound of
// linear.h: a chain of at most in / 16 + 8 roundings, each of a part of sum |x| (|code part of w| +
// |offset part|), the decoding of w and scaled_sum included.
TEST_P(LinearLevels, ValuesAgreeWithDoublePrecision) {
  ThreadPool pool(2);
  for (const Case& c : cases()) {
    const TestMatrix m = make_test_matrix(c.type, c.out, c.in, 11, c.codes);
    const PackedMatrix w(m.source(), pool);
    const Activations x = make_activations(c, 12);
    const std::vector<float> bias = make_bias(c.out);
    const Result got = run(w, x.tensor, bias.data(), level_kernels(), pool);
    const double roundings = static_cast<double>(w.quantised() ? c.in / 16 + 16 : c.in + 2);
    std::vector<float> row(c.in);
    for (int64_t r = 0; r < c.out; ++r) {
      decode_elements(c.type, m.row(r), row.data(), c.in);
      double largest_w = 0;
      for (float v : row) largest_w = std::max(largest_w, std::fabs(double{v}));
      for (int64_t t = 0; t < c.tokens; ++t) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < c.in; ++k) {
          double value = x.values[t * c.in + k];
          if (c.type == TensorType::bf16 && level_kernels().matmul->bf16_activations)
            value = round_to_bf16(x.values[t * c.in + k]);
          if (w.quantised()) {
            const ActivationBlock& b = got.blocks[t * (c.in / 32) + k / 32];
            value = static_cast<double>(b.q[k % 32]) * double{b.scale};
          }
          sum += double{row[k]} * value;
          // |offset of w| is no larger than the largest |w| of a row that has every code.
          size += std::fabs(value) * (w.quantised() ? 3 * largest_w : std::fabs(double{row[k]}));
        }
        const double wanted = sum + double{bias[r]};
        const double bound = roundings * kUnit * size + kUnit * std::fabs(wanted);
        ASSERT_LE(std::fabs(double{got.y[t * c.out + r]} - wanted), bound)
            << describe(c) << " token " << t << " row " << r << ": got " << got.y[t * c.out + r]
            << ", wanted " << wanted;
      }
    }
  }
}

TEST_P(LinearLevels, ARowDoesNotDependOnTheBatchOrTheThreads) {
  ThreadPool one(1), two(2), five(5);
  for (int i = 0; i < kTensorTypeCount; ++i) {
    const auto type = static_cast<TensorType>(i);
    const int block = tensor_type_info(type).block_elements;
    const Case c{type, 37, 45, block == 1 ? 1000 : 512};
    const TestMatrix m = make_test_matrix(type, c.out, c.in, 21);
    const PackedMatrix w(m.source(), two);
    const Activations x = make_activations(c, 22);
    const std::vector<uint32_t> whole = bits(run(w, x.tensor, nullptr, level_kernels(), one).y);
    EXPECT_EQ(bits(run(w, x.tensor, nullptr, level_kernels(), two).y), whole) << describe(c);
    EXPECT_EQ(bits(run(w, x.tensor, nullptr, level_kernels(), five).y), whole) << describe(c);
    for (int64_t count = 1; count <= 37; ++count) {
      const int64_t first = (count * 7) % (38 - count);
      const auto part =
          bits(run(w, rows_of(x.tensor, first, count), nullptr, level_kernels(), two).y);
      ASSERT_EQ(part, std::vector<uint32_t>(whole.begin() + first * c.out,
                                            whole.begin() + (first + count) * c.out))
          << describe(c) << " rows " << first << "+" << count;
    }
  }
}

// More tokens than a panel holds where a core has up to 2 MiB of second-level cache.
TEST_P(LinearLevels, PanelsDoNotShow) {
  ThreadPool pool(3);
  const Case c{TensorType::q4_1, 170, 17, 4096};
  const TestMatrix m = make_test_matrix(c.type, c.out, c.in, 31);
  const PackedMatrix w(m.source(), pool);
  const Activations x = make_activations(c, 32);
  const std::vector<uint32_t> whole = bits(run(w, x.tensor, nullptr, level_kernels(), pool).y);
  for (int64_t t = 0; t < c.tokens; ++t) {
    const auto alone = bits(run(w, rows_of(x.tensor, t, 1), nullptr, level_kernels(), pool).y);
    ASSERT_EQ(alone,
              std::vector<uint32_t>(whole.begin() + t * c.out, whole.begin() + (t + 1) * c.out))
        << "token " << t;
  }
}

TEST_P(LinearLevels, SeveralPartsAreEachAsAlone) {
  ThreadPool pool(2);
  const Case c{TensorType::q4_k, 3, 64, 256};
  const Activations x = make_activations(c, 42);
  const OpContext context{&level_kernels(), &pool};
  Arena arena;
  const LinearInput input{x.tensor, quantize_rows(x.tensor, arena, context), {}};
  const TensorType types[] = {TensorType::q4_k, TensorType::q6_k, TensorType::f16,
                              TensorType::q5_0};
  std::vector<PackedMatrix> weights;
  std::vector<LinearPart> parts;
  for (size_t i = 0; i < 4; ++i)
    weights.emplace_back(
        make_test_matrix(types[i], 20 + 11 * static_cast<int64_t>(i), 256, 40 + i).source(), pool);
  for (const PackedMatrix& w : weights)
    parts.push_back({&w, nullptr, arena.tensor(DType::f32, c.tokens, w.out())});
  linear(parts, input, context);
  for (const LinearPart& part : parts) {
    const Result alone = run(*part.weight, x.tensor, nullptr, level_kernels(), pool);
    for (int64_t t = 0; t < c.tokens; ++t)
      for (int64_t r = 0; r < part.weight->out(); ++r)
        ASSERT_EQ(part.y.row<float>(t)[r], alone.y[t * part.weight->out() + r]);
  }
}

// With the residual the activations are x but for at most 1 / 64,516 of their block's largest:
// int8 rounds by at most half a step of amax / 127, and what is left again by half a step of that.
TEST_P(LinearLevels, TheResidualMakesActivationsNearlyExact) {
  ThreadPool one(1), three(3);
  for (int i = 0; i < kTensorTypeCount; ++i) {
    const auto type = static_cast<TensorType>(i);
    if (!is_quantised(type)) continue;
    const Case c{type, 11, 21, 512};
    const TestMatrix m = make_test_matrix(type, c.out, c.in, 55);
    const PackedMatrix w(m.source(), one);
    const Activations x = make_activations(c, 56);
    const std::vector<float> bias = make_bias(c.out);
    const Result got = run(w, x.tensor, bias.data(), level_kernels(), three, true);
    std::vector<float> row(c.in);
    for (int64_t r = 0; r < c.out; ++r) {
      decode_elements(type, m.row(r), row.data(), c.in);
      double largest_w = 0;
      for (float v : row) largest_w = std::max(largest_w, std::fabs(double{v}));
      for (int64_t t = 0; t < c.tokens; ++t) {
        double wanted = bias[r], quantising = 0, size = 0;
        for (int64_t k = 0; k < c.in; ++k) {
          const double value = x.values[t * c.in + k];
          const double amax = 127 * double{got.blocks[t * (c.in / 32) + k / 32].scale};
          wanted += double{row[k]} * value;
          quantising += std::fabs(double{row[k]}) * amax / 64516;
          size += (std::fabs(value) + amax / 127) * 3 * largest_w;
        }
        const int64_t roundings = c.in / 16 + 20;
        const double rounding = (static_cast<double>(roundings) * size + std::fabs(wanted)) * kUnit;
        ASSERT_LE(std::fabs(double{got.y[t * c.out + r]} - wanted), 1.01 * quantising + rounding)
            << describe(c) << " token " << t << " row " << r;
      }
    }
    const Result serial = run(w, rows_of(x.tensor, 4, 1), bias.data(), level_kernels(), one, true);
    EXPECT_EQ(bits(serial.y), bits({got.y.begin() + 4 * c.out, got.y.begin() + 5 * c.out}))
        << describe(c);
  }
}

TEST_P(LinearLevels, ANaNStaysInItsRow) {
  ThreadPool pool(1);
  const Case c{TensorType::q4_0, 3, 8, 64};
  const PackedMatrix w(make_test_matrix(c.type, c.out, c.in, 51).source(), pool);
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    Activations x = make_activations(c, 52);
    x.values[64 + 40] = bad;
    const Result got = run(w, x.tensor, nullptr, level_kernels(), pool);
    for (int i = 0; i < 24; ++i) EXPECT_EQ(std::isnan(got.y[i]), i / 8 == 1) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, LinearLevels, testing::ValuesIn(tested_levels()), name_of_level);

TEST(Linear, AllLevelsGiveTheSameBits) {
  ThreadPool pool(2);
  for (const Case& c : cases()) {
    const PackedMatrix w(make_test_matrix(c.type, c.out, c.in, 61, c.codes).source(), pool);
    const Activations x = make_activations(c, 62);
    const auto scalar = bits(run(w, x.tensor, nullptr, kernel_table(IsaLevel::scalar), pool).y);
    for (const TestedLevel& level : usable_levels()) {
      if (c.type == TensorType::bf16 && level.kernels->matmul->bf16_activations) continue;
      ASSERT_EQ(bits(run(w, x.tensor, nullptr, *level.kernels, pool).y), scalar)
          << describe(c) << " " << level.name;
    }
  }
}

TEST(Linear, NamesTheOperandThatDoesNotFit) {
  ThreadPool pool(1);
  const OpContext context{&kernel_table(IsaLevel::scalar), &pool};
  const PackedMatrix w(make_test_matrix(TensorType::f32, 5, 6, 71).source(), pool);
  Arena arena;
  const auto message = [&](int64_t columns, int64_t out) -> std::string {
    LinearInput input;
    input.x = arena.tensor(DType::f32, 2, columns);
    try {
      linear({&w, nullptr, arena.tensor(DType::f32, 2, out)}, input, context);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(7, 5), "linear: x has 7 columns, w is [5, 6]");
  EXPECT_EQ(message(6, 4), "linear: y is [2, 4], x times w is [2, 5] (f32)");
}

}  // namespace
}  // namespace strata
