#include <gtest/gtest.h>

#include "base/cpu.h"
#include "bench/gemm.h"
#include "bench/roofline.h"

namespace strata {
namespace {

// How fast a machine is is no matter for a test; that the figures belong together is.
TEST(MachineLimits, EveryLevelHasAllOfThem) {
  ThreadPool pool(1);
  for (IsaLevel level : available_isa_levels(detect_cpu_features())) {
    const MachineLimits limits = measure_limits({&kernel_table(level), &pool}, 8 << 20);
    EXPECT_EQ(limits.threads, 1);
    for (double rate : {limits.read_gb_s, limits.fp32_gflop_s, limits.int8_u4_gop_s,
                        limits.int8_gop_s(), limits.int8_u6_gop_s, limits.int8_s8_gop_s})
      EXPECT_GT(rate, 0.0) << isa_level_name(level);
  }
}

TEST(Gemm, RatesFollowFromTheTime) {
  ThreadPool pool(1);
  const OpContext context{&kernel_table(isa_level()), &pool};
  const GemmResult r = measure_gemm({"test", TensorType::q4_1, 64, 48, 64}, context, 1);
  EXPECT_GT(r.seconds, 0.0);
  EXPECT_NEAR(r.gop_s * r.seconds * 1e9, 2.0 * 64 * 48 * 64, 1.0);
  EXPECT_NEAR(r.read_gb_s * r.seconds * 1e9, 48 * 64 / 32 * 20.0, 1.0);  // 20 bytes a block
}

}  // namespace
}  // namespace strata
