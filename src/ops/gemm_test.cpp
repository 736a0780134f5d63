#include "ops/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "kernels/guarded_for_test.h"
#include "numeric/half.h"
#include "support/tested_levels.h"

namespace strata {
namespace {

constexpr double kEps = 0x1p-24;

enum class Form { nn, nt, tn };

Tensor view(float* data, int64_t rows, int64_t columns, int64_t stride) {
  return {DType::f32, rows, columns, stride, data, -1};
}

// Operands of c [M, N] with rows `gap` floats longer than they need be, in memory that ends (or
// begins) at a guard page.
struct Operands {
  Operands(Form f, int64_t rows, int64_t columns, int64_t depth, Guard side, int64_t gap = 0)
      : form(f),
        M(rows),
        N(columns),
        K(depth),
        a_stride((form == Form::tn ? M : K) + gap),
        b_stride((form == Form::nt ? K : N) + gap),
        a(test_values(floats(form == Form::tn ? K : M, a_stride, gap), 1), side),
        b(test_values(floats(form == Form::nt ? N : K, b_stride, gap), 2), side),
        c(test_values(floats(M, N + gap, gap), 3), side),
        bias(test_values(N, 4), side) {}
  // The last row has no gap, so that the page begins where the matrix ends.
  static int64_t floats(int64_t rows, int64_t stride, int64_t gap) {
    return rows == 0 ? 0 : rows * stride - gap;
  }

  float at_a(int64_t m, int64_t k) const {
    return a.data()[form == Form::tn ? k * a_stride + m : m * a_stride + k];
  }
  float at_b(int64_t k, int64_t n) const {
    return b.data()[form == Form::nt ? n * b_stride + k : k * b_stride + n];
  }
  Tensor a_view() const {
    return form == Form::tn ? view(a.data(), K, M, a_stride) : view(a.data(), M, K, a_stride);
  }
  Tensor b_view() const {
    return form == Form::nt ? view(b.data(), N, K, b_stride) : view(b.data(), K, N, b_stride);
  }
  Tensor c_view(int64_t gap = 0) const { return view(c.data(), M, N, N + gap); }

  Form form;
  int64_t M, N, K, a_stride, b_stride;
  Guarded a, b, c, bias;
};

void multiply(Form form, const Tensor& a, const Tensor& b, const Tensor& c,
              const GemmOptions& options, const OpContext& context) {
  Workspace workspace;
  if (form == Form::nn) gemm_nn(a, b, c, options, workspace, context);
  if (form == Form::nt) gemm_nt(a, b, c, options, workspace, context);
  if (form == Form::tn) gemm_tn(a, b, c, options, workspace, context);
}

class Gemm : public LevelTest {
 protected:
  OpContext context(ThreadPool& pool) const { return {&level_kernels(), &pool}; }
  // What a product asked for with `bf16` multiplies in place of x.
  double operand(float x, bool bf16) const {
    const bool rounds = bf16 && level_kernels().gemm_bf16 != nullptr;
    return rounds ? decode_bf16(encode_bf16(x)) : x;
  }
};

constexpr Form kForms[] = {Form::nn, Form::nt, Form::tn};

// Sizes around the tile, the panel, the row block, the depth block and the parts of tn; each
// against f64 sums.
TEST_P(Gemm, AgreesWithTheNaiveSums) {
  ThreadPool pool(2);
  const int64_t sizes[][3] = {{1, 1, 1},     {2, 3, 5},     {5, 15, 7},     {6, 16, 8},
                              {7, 17, 9},    {13, 33, 31},  {12, 47, 384},  {11, 18, 385},
                              {3, 1000, 50}, {133, 31, 2},  {270, 40, 100}, {70, 130, 1000},
                              {1600, 3, 5},  {3, 1100, 390}};
  for (const Form form : kForms)
    for (const auto& [M, N, K] : sizes)
      for (const Guard side : {Guard::before, Guard::after})
        for (int mode = 0; mode < 6; ++mode) {
          const int64_t gap = mode % 3;
          Operands o(form, M, N, K, side, gap);
          const std::vector<float> before = o.c.values();
          GemmOptions options;
          options.accumulate = gap == 1;
          options.bias = gap == 2 ? o.bias.data() : nullptr;
          options.bf16 = mode >= 3;
          multiply(form, o.a_view(), o.b_view(), o.c_view(gap), options, context(pool));
          for (int64_t m = 0; m < M; ++m) {
            for (int64_t n = 0; n < N; ++n) {
              const auto at = static_cast<size_t>(m * (N + gap) + n);
              const double start = gap == 0   ? 0.0
                                   : gap == 1 ? double{before[at]}
                                              : double{o.bias.data()[n]};
              double ref = start, size = std::abs(start);
              for (int64_t k = 0; k < K; ++k) {
                const double product =
                    operand(o.at_a(m, k), options.bf16) * operand(o.at_b(k, n), options.bf16);
                ref += product;
                size += std::abs(product);
              }
              const auto depth = static_cast<double>(std::min(K, kGemmDepth));
              const int64_t panels = K / kGemmDepth;
              ASSERT_NEAR(o.c.data()[at], ref,
                          (depth + static_cast<double>(panels) + 2) * kEps * size)
                  << static_cast<int>(form) << " " << M << "x" << N << "x" << K << " at " << m
                  << "," << n << " mode " << mode;
            }
            for (int64_t g = 0; g < gap && m + 1 < M; ++g) {
              const auto at = static_cast<size_t>(m * (N + gap) + N + g);
              ASSERT_EQ(o.c.data()[at], before[at]) << "wrote between rows";
            }
          }
        }
}

// A row of the result has the same bits alone, in any batch and with any number of threads; a
// column among any others too.
TEST_P(Gemm, BitsDependOnTheRowAndTheColumnAlone) {
  ThreadPool one(1), three(3);
  const int64_t M = 150, N = 70, K = 901;
  for (int i = 0; i < 6; ++i) {
    const Form form = kForms[i % 3];
    const GemmOptions options{.bf16 = i >= 3};
    Operands whole(form, M, N, K, Guard::after);
    multiply(form, whole.a_view(), whole.b_view(), whole.c_view(), options, context(one));
    const std::vector<float> expected = whole.c.values();
    multiply(form, whole.a_view(), whole.b_view(), whole.c_view(), options, context(three));
    EXPECT_EQ(whole.c.values(), expected);
    for (const auto& [row, rows, column, columns] :
         {std::array<int64_t, 4>{0, 1, 0, 70}, {149, 1, 69, 1}, {17, 5, 3, 40}, {3, 140, 16, 16}}) {
      Tensor a = whole.a_view(), b = whole.b_view();
      a.data = whole.a.data() + (form == Form::tn ? row : row * whole.a_stride);
      (form == Form::tn ? a.columns : a.rows) = rows;
      b.data = whole.b.data() + (form == Form::nt ? column * whole.b_stride : column);
      (form == Form::nt ? b.rows : b.columns) = columns;
      std::vector<float> part(static_cast<size_t>(rows * columns));
      multiply(form, a, b, view(part.data(), rows, columns, columns), options, context(three));
      for (int64_t m = 0; m < rows; ++m)
        for (int64_t n = 0; n < columns; ++n)
          ASSERT_EQ(part[static_cast<size_t>(m * columns + n)],
                    expected[static_cast<size_t>((row + m) * N + column + n)])
              << row << " " << column;
    }
  }
}

// Half-precision weights give what their exact f32 values give.
TEST_P(Gemm, HalfWeightsAreReadExactly) {
  ThreadPool pool(2);
  const int64_t M = 7, N = 37, K = 403;
  for (const DType type : {DType::f16, DType::bf16}) {
    const std::vector<float> source = test_values(N * K, 9);
    std::vector<uint16_t> half;
    std::vector<float> exact;
    for (const float x : source) {
      half.push_back(type == DType::f16 ? encode_f16(x) : encode_bf16(x));
      exact.push_back(type == DType::f16 ? decode_f16(half.back()) : decode_bf16(half.back()));
    }
    std::vector<float> x = test_values(M * K, 10), y(static_cast<size_t>(M * N)), z = y;
    for (int i = 0; i < 4; ++i) {
      const Form form = i % 2 == 0 ? Form::nt : Form::nn;
      const GemmOptions options{.bf16 = i >= 2};
      const int64_t rows = form == Form::nt ? N : K, columns = form == Form::nt ? K : N;
      const Tensor w{type, rows, columns, columns, half.data(), -1};
      multiply(form, view(x.data(), M, K, K), w, view(y.data(), M, N, N), options, context(pool));
      multiply(form, view(x.data(), M, K, K), view(exact.data(), rows, columns, columns),
               view(z.data(), M, N, N), options, context(pool));
      EXPECT_EQ(y, z);
      EXPECT_NE(y, std::vector<float>(y.size(), 0.0f));
    }
  }
}

// A zero does not hide a NaN or an infinity: 0 * inf is NaN.
TEST_P(Gemm, NanAndInfinityArrive) {
  ThreadPool pool(1);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (int i = 0; i < 6; ++i) {
      const Form form = kForms[i % 3];
      Operands o(form, 8, 20, 30, Guard::after);
      std::fill_n(o.a.data(), 8 * 30, 0.0f);
      o.b.data()[form == Form::nt ? 3 * o.b_stride + 11 : 11 * o.b_stride + 3] = bad;
      multiply(form, o.a_view(), o.b_view(), o.c_view(), {.bf16 = i >= 3}, context(pool));
      for (int64_t m = 0; m < 8; ++m)
        for (int64_t n = 0; n < 20; ++n)
          EXPECT_EQ(std::isnan(o.c.data()[m * 20 + n]), n == 3) << m << " " << n;
    }
  }
}

TEST_P(Gemm, EmptyDimensions) {
  ThreadPool pool(1);
  std::vector<float> c = {1, 2, 3, 4, 5, 6}, bias = {7, 8, 9};
  const Tensor a = view(nullptr, 2, 0, 0), b = view(nullptr, 0, 3, 3),
               out = view(c.data(), 2, 3, 3);
  multiply(Form::nn, a, b, out, {.accumulate = true}, context(pool));
  EXPECT_EQ(c, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  multiply(Form::nn, a, b, out, {.bias = bias.data()}, context(pool));
  EXPECT_EQ(c, (std::vector<float>{7, 8, 9, 7, 8, 9}));
  multiply(Form::nn, a, b, out, {}, context(pool));
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
  multiply(Form::nn, view(nullptr, 0, 4, 4), view(nullptr, 4, 0, 0), view(nullptr, 0, 0, 0), {},
           context(pool));
}

std::string refusal(Form form, const Tensor& a, const Tensor& b, const Tensor& c,
                    const GemmOptions& options, const OpContext& context) {
  try {
    multiply(form, a, b, c, options, context);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST_P(Gemm, RefusesWhatDoesNotFit) {
  ThreadPool pool(1);
  std::vector<float> memory(100);
  const Tensor a = view(memory.data(), 2, 3, 3), b = view(memory.data(), 3, 4, 4),
               c = view(memory.data() + 50, 2, 4, 4);
  const OpContext ctx = context(pool);
  EXPECT_EQ(refusal(Form::nn, a, b, view(memory.data(), 2, 5, 5), {}, ctx),
            "gemm_nn: c is [2, 5], the product is [2, 4]");
  EXPECT_EQ(refusal(Form::nt, a, b, c, {}, ctx),
            "gemm_nt: b is [3, 4], a is [2, 3]: they share no dimension of 3");
  EXPECT_EQ(refusal(Form::tn, a, b, c, {}, ctx),
            "gemm_tn: b is [3, 4], a is [2, 3]: they share no dimension of 2");
  Tensor half = b;
  half.dtype = DType::bf16;
  EXPECT_EQ(refusal(Form::tn, a, half, c, {}, ctx),
            "gemm_tn: b is not f32 (only gemm_nn and gemm_nt take f16, bf16)");
  EXPECT_EQ(refusal(Form::nn, half, b, c, {}, ctx), "gemm_nn: a is not f32");
  EXPECT_EQ(refusal(Form::nn, a, b, half, {}, ctx), "gemm_nn: c is not f32");
  EXPECT_EQ(refusal(Form::nn, a, b, c, {.accumulate = true, .bias = memory.data()}, ctx),
            "gemm_nn: bias and accumulate exclude each other");
}

// Rounding is seen: not every product can be the one in f32.
TEST_P(Gemm, Bf16IsWhatTheLevelHas) {
  ThreadPool pool(2);
  for (const Form form : kForms) {
    Operands o(form, 40, 50, 60, Guard::after);
    multiply(form, o.a_view(), o.b_view(), o.c_view(), {}, context(pool));
    const std::vector<float> f32 = o.c.values();
    multiply(form, o.a_view(), o.b_view(), o.c_view(), {.bf16 = true}, context(pool));
    EXPECT_EQ(o.c.values() != f32, level_kernels().gemm_bf16 != nullptr);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Gemm, testing::ValuesIn(tested_levels()), name_of_level);

}  // namespace
}  // namespace strata
