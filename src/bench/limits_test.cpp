#include <gtest/gtest.h>

#include "base/cpu.h"
#include "base/error.h"
#include "bench/attention.h"
#include "bench/gemm.h"
#include "bench/roofline.h"

namespace strata {
namespace {

ProbeOptions short_probe() {
  ProbeOptions options;
  options.read_bytes = 8 << 20;
  options.window_seconds = 0.001;
  return options;
}

// How fast a machine is is no matter for a test; that the figures belong together is.
TEST(Probe, EveryLevelHasAllLimits) {
  ThreadPool pool(2);
  for (IsaLevel level : available_isa_levels(detect_cpu_features())) {
    const ProbeSamples samples = probe_machine({&kernel_table(level), &pool}, short_probe());
    for (const auto* rates : {&samples.read, &samples.fp32, &samples.int8_u4, &samples.int8_u5,
                              &samples.int8_u6, &samples.int8_s8}) {
      EXPECT_GE(rates->size(), 3u);
      EXPECT_LE(rates->size(), 10u);
      for (double rate : *rates) EXPECT_GT(rate, 0.0) << isa_level_name(level);
    }
    const MachineLimits limits = samples.best();
    EXPECT_EQ(limits.threads, 2);
    EXPECT_GT(limits.product_gop_s(TensorType::q6_k), 0.0);
  }
}

TEST(Probe, StopsWhenTold) {
  ThreadPool pool(1);
  ProbeOptions options = short_probe();
  int windows = 0;
  options.check = [&] {
    if (++windows == 5) fail(ErrorCode::cancelled, "enough");
  };
  EXPECT_THROW(probe_machine({&kernel_table(IsaLevel::scalar), &pool}, options), Error);
  EXPECT_EQ(windows, 5);
}

TEST(MachineLimits, TheLargerOfTwoIsTakenLimitByLimit) {
  const MachineLimits a = {2, 30, 100, 4, 50, 6, 70}, b = {2, 20, 200, 40, 5, 60, 7};
  const MachineLimits both = larger_of(a, b);
  EXPECT_EQ(both.read_gb_s, 30);
  EXPECT_EQ(both.fp32_gflop_s, 200);
  EXPECT_EQ(both.int8_u4_gop_s, 40);
  EXPECT_EQ(both.int8_gop_s(), 50);
  EXPECT_EQ(both.int8_u6_gop_s, 60);
  EXPECT_EQ(both.int8_s8_gop_s, 70);
}

// The ranges of the formats' codes: ggml's block definitions (numeric/blocks.h).
TEST(MachineLimits, ProductsAreBoundByTheRangeOfTheirWeights) {
  const MachineLimits limits = {2, 1, 32, 4, 5, 6, 8};
  for (TensorType t : {TensorType::f32, TensorType::f16, TensorType::bf16})
    EXPECT_EQ(limits.product_gop_s(t), 32);
  for (TensorType t :
       {TensorType::q4_0, TensorType::q4_1, TensorType::q4_k, TensorType::q2_k, TensorType::q3_k})
    EXPECT_EQ(limits.product_gop_s(t), 4);
  for (TensorType t : {TensorType::q5_0, TensorType::q5_1, TensorType::q5_k})
    EXPECT_EQ(limits.product_gop_s(t), 5);
  EXPECT_EQ(limits.product_gop_s(TensorType::q6_k), 6);
  // Table values reach from -127 to 113.
  for (TensorType t : {TensorType::q8_0, TensorType::iq4_nl, TensorType::iq4_xs})
    EXPECT_EQ(limits.product_gop_s(t), 8);
}

TEST(Gemm, CountsItsOperationsAndBytes) {
  ThreadPool pool(1);
  const OpContext context{&kernel_table(isa_level()), &pool};
  const Measurement m = measure_gemm({"m", "gate", TensorType::q4_1, 64, 48, 64}, context, 2);
  ASSERT_EQ(m.values.size(), 2u);
  EXPECT_GT(m.values[0], 0.0);
  EXPECT_EQ(m.unit, "GOP/s");
  EXPECT_DOUBLE_EQ(m.units, 1e-9 * 2 * 64 * 48 * 64);
  EXPECT_EQ(m.work.operations[static_cast<size_t>(TensorType::q4_1)], 2.0 * 64 * 48 * 64);
  EXPECT_EQ(m.work.read_bytes, 48 * 2 * 20.0);  // two blocks of 32 a row, 20 bytes each
  EXPECT_EQ(measure_gemm({"", "", TensorType::f32, 64, 8, 8}, context, 1).unit, "GFLOP/s");
}

TEST(Gemm, RefusesSizesThatAreNoMatrix) {
  ThreadPool pool(1);
  const OpContext context{&kernel_table(isa_level()), &pool};
  EXPECT_THROW(measure_gemm({"", "", TensorType::q4_k, 1, 8, 128}, context, 1), Error);
  EXPECT_THROW(measure_gemm({"", "", TensorType::f32, 0, 8, 8}, context, 1), Error);
}

TEST(Gemm, PromptsDoNotMultiplyTheHead) {
  const std::vector<int64_t> tokens = {1, 63, 64};
  int heads = 0;
  for (const GemmCase& c : default_gemm_cases(tokens)) {
    if (c.name != "head") continue;
    ++heads;
    EXPECT_LT(c.tokens, 64);
  }
  EXPECT_EQ(heads, 4);  // two models, two numbers of tokens
}

// Query i of the last two of five sees 4 and 5 keys.
TEST(Attention, CountsVisibleKeys) {
  ThreadPool pool(1);
  const OpContext context{&kernel_table(isa_level()), &pool};
  AttentionCase c;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_size = 8;
  c.context = 5;
  c.queries = 2;
  c.kv_type = KvType::f16;
  const Measurement m = measure_attention(c, context, 1);
  EXPECT_DOUBLE_EQ(m.units, 1e-9 * 4 * 8 * 4 * (4 + 5));
  EXPECT_EQ(m.work.read_bytes, 2.0 * 5 * (8 + 16) * 2);  // values padded to 16
  EXPECT_GT(m.values.at(0), 0.0);
  c.kv_heads = 3;
  EXPECT_THROW(measure_attention(c, context, 1), Error);
}

}  // namespace
}  // namespace strata
