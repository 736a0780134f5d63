// A step of a size seen before allocates nothing: activations are planned once, workspaces stay.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/allocation_count_for_test.h"
#include "base/cpu.h"
#include "kernels/kernel_table.h"
#include "train/gpt_model.h"
#include "train/optimizer.h"
#include "train/train_pass.h"

namespace strata {
namespace {

class Allocations : public testing::TestWithParam<std::tuple<Recompute, DType>> {};

TEST_P(Allocations, ThereAreNoneInAStepOfASizeSeenBefore) {
  GptConfig c;
  c.vocabulary = 11;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.hidden = 32;
  c.mlp = 64;
  c.context = 16;
  c.positions = GptPositions::rotary;
  const auto model = make_gpt(c, 1);
  ThreadPool pool(2);
  const OpContext context{&kernel_table(isa_level()), &pool};
  const auto [recompute, operands] = GetParam();
  ParameterTable parameters(*model, {}, operands);
  TrainPass pass(model->transformer, parameters, c.context,
                 {.dropout = 0.1f, .seed = 1, .recompute = recompute}, context);
  Optimizer optimizer(parameters, {}, context);
  std::vector<int32_t> tokens, positions, targets;
  for (int32_t i = 0; i < 32; ++i) {
    tokens.push_back(i * 7 % 11);
    positions.push_back(i % 16);
    targets.push_back(i * 5 % 11);
  }
  const std::vector<SequenceRows> sequences = {{0, 16, 0, -1}, {16, 16, 0, -1}};
  PassInput input{{tokens, positions, sequences}, targets.data(), 1.0f / 32};
  const auto step = [&](int64_t number) {
    input.step = static_cast<uint32_t>(number);
    parameters.zero_gradients();
    pass.forward_backward(input);
    optimizer.step(number, 1e-3, 1);
  };
  step(1);
  const size_t held = pass.held_bytes();
  const int64_t before = allocation_count();
  step(2);
  step(3);
  EXPECT_EQ(allocation_count(), before);
  EXPECT_EQ(pass.held_bytes(), held);
}

INSTANTIATE_TEST_SUITE_P(Plans, Allocations,
                         testing::Combine(testing::Values(Recompute::cheap, Recompute::blocks),
                                          testing::Values(DType::f32, DType::bf16)),
                         [](const auto& p) {
                           return std::string(std::get<0>(p.param) == Recompute::cheap ? "cheap"
                                                                                       : "blocks") +
                                  (std::get<1>(p.param) == DType::bf16 ? "_bf16" : "_f32");
                         });

}  // namespace
}  // namespace strata
