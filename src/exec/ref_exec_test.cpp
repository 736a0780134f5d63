// Single operations of RefExec against numbers worked out by hand; whole models are compared with
// transformers in model/architectures_test.cpp.
#include "exec/ref_exec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "numeric/half.h"

namespace strata {
namespace {

// A weight over numbers of the test.
WeightRef weight_of(const std::vector<float>& values, int64_t out, int64_t in, int32_t id = 0) {
  WeightRef w;
  w.id = id;
  w.out = out;
  w.in = in;
  w.bytes = std::as_bytes(std::span(values));
  w.row_stride = in * 4;
  w.element_stride = 4;
  return w;
}

std::vector<double> row_of(const Tensor& t, int64_t r) {
  return {t.row<double>(r), t.row<double>(r) + t.columns};
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-14) << i;
}

// A batch of one sequence of n tokens.
struct OneSequence {
  explicit OneSequence(int32_t n) : tokens(static_cast<size_t>(n)), rows{0, n, 0, -1} {
    for (int32_t i = 0; i < n; ++i) positions.push_back(i);
  }
  Batch batch() const { return {tokens, positions, {&rows, 1}}; }
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;
  SequenceRows rows;
};

TEST(RefExec, LinearHasBiasAndAnyStrides) {
  RefExec ex;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};  // [2, 3]
  const std::vector<float> bias = {0.5f, -1};
  const Tensor x = ex.tensor_of(std::vector<float>{1, 0, -1, 2, 1, 0}, 2, 3);
  const Tensor y = ex.linear(x, {weight_of(values, 2, 3), weight_of(bias, 1, 2, 1)});
  expect_near(row_of(y, 0), {1 - 3 + 0.5, 4 - 6 - 1});
  expect_near(row_of(y, 1), {2 + 2 + 0.5, 8 + 5 - 1});

  WeightRef transposed = weight_of(values, 3, 2);  // the same bytes as [in = 2, out = 3]
  transposed.row_stride = 4;
  transposed.element_stride = 12;
  const Tensor z = ex.linear(ex.tensor_of(std::vector<float>{1, 10}, 1, 2), {transposed, {}});
  expect_near(row_of(z, 0), {41, 52, 63});
}

TEST(RefExec, ARowIsTheSameInAnyCompany) {
  RefExec ex;
  std::vector<float> values(64 * 5);
  std::vector<float> inputs(19 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 3;
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = std::cos(static_cast<float>(i) * 0.7f);
  const Linear w{weight_of(values, 5, 64), {}};
  const Tensor all = ex.linear(ex.tensor_of(inputs, 19, 64), w);
  for (int64_t r = 0; r < 19; ++r) {
    const auto alone = std::span<const float>(inputs).subspan(static_cast<size_t>(r) * 64, 64);
    EXPECT_EQ(row_of(all, r), row_of(ex.linear(ex.tensor_of(alone, 1, 64), w), 0)) << r;
  }
}

TEST(RefExec, NormsOverTheWholeRowAndOverHeads) {
  RefExec ex;
  const std::vector<float> ones = {1, 1};
  const std::vector<float> weight = {2, -1};
  const std::vector<float> bias = {10, 20};
  const Tensor x = ex.tensor_of(std::vector<float>{3, 4, 0, 5}, 1, 4);
  Norm rms{NormKind::rms, 0, 0, weight_of(ones, 1, 2), {}};
  const double a = std::sqrt(12.5);
  expect_near(row_of(ex.norm(x, rms), 0), {3 / a, 4 / a, 0, 5 / a});
  rms.weight_offset = 1;
  expect_near(row_of(ex.norm(x, rms), 0), {6 / a, 8 / a, 0, 10 / a});
  rms.epsilon = 12.5;
  expect_near(row_of(ex.norm(x, rms), 0), {6 / 5.0, 8 / 5.0, 0, 10 / 5.0});

  const Norm layer{NormKind::layer, 0, 0, weight_of(weight, 1, 2, 1), weight_of(bias, 1, 2, 2)};
  expect_near(row_of(ex.norm(x, layer), 0), {10 - 2, 20 - 1, 10 - 2, 20 - 1});
}

TEST(RefExec, RopeTurnsPairsInBothLayouts) {
  RefExec ex;
  const OneSequence two(2);
  Rope rope;
  rope.inverse_frequency = {std::numbers::pi / 2, 0};
  rope.attention_factor = 2;
  // Two heads of five dimensions; the fifth is left alone, and so is its scale.
  const std::vector<float> head = {1, 2, 3, 4, 5, -1, -2, -3, -4, -5};
  std::vector<float> rows = head;
  rows.insert(rows.end(), head.begin(), head.end());
  const Tensor x = ex.tensor_of(rows, 2, 10);
  const Tensor halves = ex.rope(x, 2, 5, rope, two.batch());
  expect_near(row_of(halves, 0), {2, 4, 6, 8, 5, -2, -4, -6, -8, -5});
  expect_near(row_of(halves, 1), {-6, 4, 2, 8, 5, 6, -4, -2, -8, -5});
  rope.layout = Rope::Layout::pairs;
  const Tensor pairs = ex.rope(x, 2, 5, rope, two.batch());
  expect_near(row_of(pairs, 1), {-4, 2, 6, 8, 5, 4, -2, -6, -8, -5});
}

TEST(RefExec, AttentionIsCausalWindowedAndGrouped) {
  RefExec ex;
  const OneSequence three(3);
  AttentionConfig c;
  c.heads = 2;
  c.kv_heads = 1;
  c.head_size = 1;
  // Head 0 asks with 0: equal shares. Head 1 asks with 1 where keys are ln 1, ln 2, ln 5: shares
  // 1 : 2 : 5.
  const auto ln = [](double x) { return static_cast<float>(std::log(x)); };
  const Qkv qkv{ex.tensor_of(std::vector<float>{0, 1, 0, 1, 0, 1}, 3, 2),
                ex.tensor_of(std::vector<float>{0, ln(2), ln(5)}, 3, 1),
                ex.tensor_of(std::vector<float>{8, 16, -24}, 3, 1)};
  const Tensor y = ex.attend(qkv, c, 0, three.batch());
  const auto near = [&](const Tensor& t, int64_t r, double a, double b) {
    EXPECT_NEAR(t.row<double>(r)[0], a, 1e-12);
    EXPECT_NEAR(t.row<double>(r)[1], b, 1e-6);  // ln 2 and ln 5 are rounded to f32
  };
  near(y, 0, 8, 8);
  near(y, 1, 12, (8 + 32) / 3.0);
  near(y, 2, 0, (8 + 32 - 120) / 8.0);
  c.window = 2;
  near(ex.attend(qkv, c, 0, three.batch()), 2, -4, (32 - 120) / 7.0);
  c.scale = 0;
  near(ex.attend(qkv, c, 0, three.batch()), 2, -4, -4);
}

TEST(RefExec, KeysAndValuesAreRoundedAsTheyWouldBeStored) {
  RefOptions options;
  options.kv = RefOptions::Kv::bf16;
  RefExec ex(options);
  const OneSequence one(1);
  AttentionConfig c;
  c.heads = c.kv_heads = c.head_size = 1;
  const Qkv qkv{ex.tensor_of(std::vector<float>{1}, 1, 1),
                ex.tensor_of(std::vector<float>{1}, 1, 1),
                ex.tensor_of(std::vector<float>{1.005f}, 1, 1)};
  EXPECT_EQ(ex.attend(qkv, c, 0, one.batch()).row<double>(0)[0], 1.0078125);  // 1 + 2^-7
}

TEST(RefExec, QuantisesBlocksHalfToEven) {
  std::vector<double> x = {127, 0.5, 1.5, 2.5, -0.5, -1.5, 3.49, -126.6};
  std::vector<double> y(x.size());
  quantise_block(x.data(), 8, y.data());
  EXPECT_EQ(y, (std::vector<double>{127, 0, 2, 2, 0, -2, 3, -127}));
  x.assign(8, 0);
  quantise_block(x.data(), 8, x.data());
  EXPECT_EQ(x, std::vector<double>(8, 0));
  x[3] = 1e-31;
  quantise_block(x.data(), 8, y.data());
  EXPECT_EQ(y, std::vector<double>(8, 0));
  x[3] = std::numeric_limits<double>::infinity();
  quantise_block(x.data(), 8, y.data());
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[7]));
}

TEST(RefExec, Int8ModeTouchesTheInputsOfQuantisedWeightsOnly) {
  RefOptions options;
  options.activations = RefOptions::Activations::int8;
  RefExec ex(options);
  // A row of 64: the first block has amax 127, the second 12.7 (scale 0.1).
  std::vector<float> x(64, 0);
  x[0] = 127;
  x[1] = 0.4f;
  x[32] = 12.7f;
  x[33] = 0.4f;
  const Tensor t = ex.tensor_of(x, 1, 64);
  // Q8_0 with scale 1: all ones but for the two largest inputs.
  std::vector<std::byte> blocks(2 * 34, std::byte{1});
  for (size_t b = 0; b < 2; ++b) {
    blocks[b * 34] = std::byte{0x00};
    blocks[b * 34 + 1] = std::byte{0x3c};
    blocks[b * 34 + 2] = std::byte{0};
  }
  WeightRef w;
  w.id = 0;
  w.out = 1;
  w.in = 64;
  w.type = TensorType::q8_0;
  w.bytes = blocks;
  w.row_stride = 68;
  // 0.4 becomes 0 in the first block and 4 * 0.1 in the second.
  const float scale = 12.7f / 127.0f;
  EXPECT_EQ(ex.linear(t, {w, {}}).row<double>(0)[0], static_cast<float>(4.0 * scale));

  const std::vector<float> ones = [] {
    std::vector<float> v(64, 1);
    v[0] = v[32] = 0;
    return v;
  }();
  const double sum = static_cast<double>(0.4f) * 2;
  EXPECT_EQ(ex.linear(t, {weight_of(ones, 1, 64, 1), {}}).row<double>(0)[0],
            static_cast<float>(sum));
}

TEST(RefExec, EmbeddingScalesTokensAndAddsPositions) {
  RefExec ex;
  OneSequence two(2);
  two.tokens = {2, 0};
  const std::vector<float> table = {1, 2, 3, 4, 5, 6};
  const std::vector<float> positions = {100, 200, 300, 400};
  Embedding e{weight_of(table, 3, 2), weight_of(positions, 2, 2, 1), 10};
  const Tensor y = ex.embed(e, two.batch());
  expect_near(row_of(y, 0), {150, 260});
  expect_near(row_of(y, 1), {310, 420});
}

TEST(RefExec, ActivationsAtKnownPoints) {
  RefExec ex;
  const Tensor x = ex.tensor_of(std::vector<float>{0, 1, -2}, 1, 3);
  const double e = std::numbers::e;
  expect_near(row_of(ex.act(x, Activation::silu), 0), {0, e / (1 + e), -2 / (1 + e * e)});
  expect_near(row_of(ex.act(x, Activation::relu), 0), {0, 1, 0});
  // torch.nn.functional.gelu in float64, exact and tanh form.
  expect_near(row_of(ex.act(x, Activation::gelu_erf), 0),
              {0, 0.8413447460685429, -0.04550026389635842});
  expect_near(row_of(ex.act(x, Activation::gelu_tanh), 0),
              {0, 0.8411919906082768, -0.04540230591222494});
  const Tensor up = ex.tensor_of(std::vector<float>{3, 3, 3}, 1, 3);
  expect_near(row_of(ex.act_mul(x, up, Activation::relu), 0), {0, 3, 0});
}

}  // namespace
}  // namespace strata
