#include "bench/work.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

const MachineLimits kLimits = {2, 10, 100, 400, 500, 600, 800};

TEST(Work, IsBoundByMemoryOrByArithmetic) {
  Work work;
  work.read_bytes = 20e9;
  EXPECT_DOUBLE_EQ(work.least_seconds(kLimits), 2.0);
  // One second in 4-bit products and half a second in f32 ones: memory still binds.
  work.add_product(TensorType::q4_k, 400e9);
  work.add_product(TensorType::f32, 50e9);
  EXPECT_DOUBLE_EQ(work.least_seconds(kLimits), 2.0);
  work.add_product(TensorType::q8_0, 800e9);
  EXPECT_DOUBLE_EQ(work.least_seconds(kLimits), 2.5);
  Work twice = work;
  twice += work;
  EXPECT_DOUBLE_EQ(twice.least_seconds(kLimits), 5.0);
}

// A model of two layers, 64 wide, with 3 KV heads of 16; nothing of it has values.
class SmallModel {
 public:
  SmallModel() {
    BlockWeights b;
    b.attn.q = matrix(TensorType::q4_1, 96, 64);
    b.attn.k = b.attn.v = matrix(TensorType::q4_1, 48, 64);
    b.attn_output = matrix(TensorType::q4_1, 64, 96);
    b.mlp.gate = b.mlp.up = matrix(TensorType::q8_0, 128, 64);
    b.mlp.down = matrix(TensorType::q8_0, 64, 128);
    model.transformer.blocks = {b, b};
    model.transformer.embedding.tokens = matrix(TensorType::f16, 1000, 64).weight;
    model.transformer.head = matrix(TensorType::q8_0, 1000, 64);
    BlockConfig c;
    c.attention.heads = 6;
    c.attention.kv_heads = 3;
    c.attention.head_size = 16;
    model.transformer.block_configs = {c, c};
    model.layer_groups = {{0, {0}}, {100, {1}}};
  }
  Model model;

 private:
  Linear matrix(TensorType type, int64_t out, int64_t in) {
    Linear l;
    l.weight.id = next_id_++;
    l.weight.type = type;
    l.weight.out = out;
    l.weight.in = in;
    return l;
  }
  int32_t next_id_ = 0;
};

// Elements per layer: q 96 * 64, k and v 48 * 64 each, o 64 * 96; gate, up, down 128 * 64 each.
constexpr double kAttention = 96 * 64 + 2 * 48 * 64 + 64 * 96, kMlp = 3 * 128 * 64;

TEST(ModelPass, CountsEveryMatrixOnceAndTheHeadWhereAsked) {
  const SmallModel small;
  const Work pass = model_pass(small.model, 5, 1);
  EXPECT_EQ(pass.operations[static_cast<size_t>(TensorType::q4_1)], 2 * 5 * 2 * kAttention);
  EXPECT_EQ(pass.operations[static_cast<size_t>(TensorType::q8_0)],
            2 * 5 * 2 * kMlp + 2 * 1000 * 64);
  // Q4_1: 20 bytes a block of 32, Q8_0: 34; five rows of the f16 embedding.
  EXPECT_EQ(pass.read_bytes,
            2 * (kAttention * 20 / 32 + kMlp * 34 / 32) + 1000 * 64 * 34.0 / 32 + 5 * 64 * 2.0);
}

TEST(ModelPass, WithoutLogitsTheHeadIsNotRead) {
  const SmallModel small;
  const double with = model_pass(small.model, 1, 1).read_bytes;
  EXPECT_EQ(with - model_pass(small.model, 1, 0).read_bytes, 1000 * 64 * 34.0 / 32);
}

// Keys and values of a token and layer in f16: 2 * 3 * 16 * 2 = 192 bytes. The second layer sees
// the last 100 positions.
TEST(KvReadBytes, MindsWindows) {
  const SmallModel small;
  EXPECT_EQ(kv_read_bytes(small.model, KvType::f16, 0), 2 * 192);
  EXPECT_EQ(kv_read_bytes(small.model, KvType::f16, 99), 200 * 192);
  EXPECT_EQ(kv_read_bytes(small.model, KvType::f16, 299), (300 + 100) * 192);
  EXPECT_EQ(kv_read_bytes(small.model, KvType::f32, 299), 2 * (300 + 100) * 192);
}

}  // namespace
}  // namespace strata
