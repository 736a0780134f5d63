// Plans against sums done by hand for the small golden models.
#include "model/plan.h"

#include <gtest/gtest.h>

#include "model/test_models.h"

namespace strata::testing {
namespace {

TEST(Plan, OfAnUntiedLlama) {
  // D 32, H 4, Hk 2, Dh 8, F 48, V 64, L 2, all weights F16.
  PlanOptions options;
  options.context = 100;
  options.batch_rows = 10;
  const MemoryPlan plan = plan_memory(*load_golden("llama"), options);
  EXPECT_EQ(plan.parameters, 19616);
  EXPECT_EQ(plan.weight_bytes, 2 * 19616);
  // All but the embedding table [64, 32], of which one row is read.
  EXPECT_EQ(plan.weight_bytes_per_token, 2 * (19616 - 64 * 32 + 32));
  // q and output 32 x 32, k and v 16 x 32, three of 48 x 32, twice; the head 64 x 32.
  EXPECT_EQ(plan.linear_flops_per_token, 2 * (2 * (2 * 1024 + 2 * 512 + 3 * 1536) + 2048));
  EXPECT_EQ(plan.attention_flops_per_key, 2 * 4 * 32);
  EXPECT_EQ(plan.kv_bytes_per_token, 2 * 2 * 2 * 8 * 2);
  EXPECT_EQ(plan.kv_bytes, 128 * 100);
  // Columns a block holds: its input 32; norm 32; q, k, v 32 + 16 + 16; their rope 32 + 16; heads,
  // output and sum 3 x 32; norm 32; gate, up, product 3 x 48; down and sum 2 x 32.
  EXPECT_EQ(plan.activation_peak_bytes, 512 * 10 * 4);
}

TEST(Plan, WindowedLayersKeepTheirWindow) {
  const std::unique_ptr<Model> model = load_golden("gemma3");  // six layers of 32, one global
  PlanOptions options;
  options.context = 512;
  MemoryPlan plan = plan_memory(*model, options);
  ASSERT_EQ(plan.kv_groups.size(), 2u);
  EXPECT_EQ(plan.kv_groups[0].bytes_per_token, 6 * 64);  // 2 x 1 head x 16, f16
  EXPECT_EQ(plan.kv_groups[0].tokens, 32);
  EXPECT_EQ(plan.kv_groups[1].bytes_per_token, 64);
  EXPECT_EQ(plan.kv_groups[1].tokens, 512);
  EXPECT_EQ(plan.kv_bytes, 384 * 32 + 64 * 512);
  // A tied head is read whole for each token.
  EXPECT_EQ(plan.weight_bytes_per_token, plan.weight_bytes);
  options.kv_bytes_per_value = 34.0 / 32;
  options.context = 20;
  plan = plan_memory(*model, options);
  EXPECT_EQ(plan.kv_bytes_per_token, 7 * 34);
  EXPECT_EQ(plan.kv_bytes, 7 * 34 * 20);
  options.context = 0;
  EXPECT_EQ(plan_memory(*model, options).context, 512);
}

}  // namespace
}  // namespace strata::testing
