#include "bench/train_ops.h"

#include <gtest/gtest.h>

#include "base/cpu.h"
#include "support/shadow_memory.h"

namespace strata {
namespace {

std::vector<Measurement> measured(const TrainOpsCase& c) {
  ThreadPool pool(2);
  return measure_train_ops(c, {&kernel_table(isa_level()), &pool}, 2);
}

TEST(TrainOps, CountsTheOperationsOfEachProduct) {
  TrainOpsCase c;
  c.ops = {TrainOp::nt, TrainOp::nn, TrainOp::tn};
  c.rows = 32;
  c.weights = {{24, 16}};
  const std::vector<Measurement> all = measured(c);
  ASSERT_EQ(all.size(), 3u);
  const char* const names[] = {"gemm_nt", "gemm_nn", "gemm_tn"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all[i].what, names[i]);
    EXPECT_EQ(all[i].params["out"], 24);
    EXPECT_EQ(all[i].work.operations[static_cast<size_t>(TensorType::f32)], 2.0 * 32 * 24 * 16);
    EXPECT_EQ(all[i].values.size(), 2u);
    EXPECT_GT(all[i].values[0], 0);
  }
}

TEST(TrainOps, CountsTheVisibleHalfOfAttentionAndItsMemory) {
  TrainOpsCase c;
  c.ops = {TrainOp::attention};
  c.tokens = 2048;
  c.heads = 2;
  c.head_size = 32;
  const std::vector<Measurement> all = measured(c);
  ASSERT_EQ(all.size(), 2u);
  const double products = 2048.0 * 2048 * 32 * 2;
  EXPECT_EQ(all[0].work.operations[static_cast<size_t>(TensorType::f32)], 2 * products);
  EXPECT_EQ(all[1].work.operations[static_cast<size_t>(TensorType::f32)], 5 * products);
  // Of what is measured nothing is quadratic: [H, T, T] f32 would be 32 MiB.
  for (const Measurement& m : all) {
    ASSERT_TRUE(m.params.contains("peak_bytes"));
    EXPECT_LT(m.params["peak_bytes"].get<int64_t>(), testing::kHeldPerByte * (int64_t{16} << 20));
  }
}

}  // namespace
}  // namespace strata
