// The tape against examples/gpt2_straight.cpp, which shares no code with it: loss and every
// gradient of a small GPT-2.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "base/cpu.h"
#include "base/error.h"
#include "kernels/kernel_table.h"
#include "model/test_models.h"
#include "support/isa_level_test.h"
#include "train/gpt_model.h"
#include "train/memory_tensors.h"
#include "train/train_pass.h"

namespace strata {
namespace {

constexpr int kBatch = 3, kLength = 14;

void append(std::vector<float>& out, const float* values, int64_t n) {
  out.insert(out.end(), values, values + n);
}

TEST(Gpt2Straight, GivesTheTapesLossAndGradients) {
  GptConfig c;
  c.vocabulary = 23;
  c.layers = 2;
  c.heads = 3;
  c.kv_heads = 3;
  c.hidden = 24;
  c.mlp = 96;
  c.context = 20;
  const auto model = make_gpt(c, 5);
  const auto& memory = dynamic_cast<const MemoryTensors&>(*model->store);
  for (const WeightRef& w : model->weights) {
    const auto extra = test_values(w.out * w.in, static_cast<uint32_t>(w.id) + 3, 0.4f);
    for (int64_t i = 0; i < w.out * w.in; ++i) memory.values(w)[i] += extra[static_cast<size_t>(i)];
  }
  const ParameterTable parameters(*model);
  ThreadPool pool(2);
  TrainPass pass(model->transformer, parameters, c.context, {},
                 {&kernel_table(isa_level()), &pool});
  std::vector<int32_t> tokens, positions, targets, all;
  std::vector<SequenceRows> sequences;
  for (int b = 0; b < kBatch; ++b) {
    sequences.push_back({b * kLength, kLength, 0, -1});
    for (int t = 0; t <= kLength; ++t) {
      all.push_back((b * 31 + t * t * 7 + t) % 23);
      if (t > 0) targets.push_back(all.back());
      if (t < kLength) {
        tokens.push_back(all.back());
        positions.push_back(t);
      }
    }
  }
  PassInput input{{tokens, positions, sequences}, targets.data()};
  input.factor = 1.0f / (kBatch * kLength);
  const CrossEntropyLoss loss = pass.forward_backward(input);

  const auto order = [&](bool gradients) {
    std::vector<float> values;
    const auto put = [&](const std::string& name) {
      for (const Parameter& p : parameters.all())
        if (p.name == name) append(values, gradients ? p.gradient : p.value, p.size());
    };
    put("token_embd.weight");
    put("position_embd.weight");
    for (int l = 0; l < c.layers; ++l) {
      const std::string block = fmt::format("blk.{}.", l);
      for (const char* name :
           {"attn_norm.weight", "attn_norm.bias", "attn_q.weight", "attn_k.weight", "attn_v.weight",
            "attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.weight", "attn_output.bias",
            "ffn_norm.weight", "ffn_norm.bias", "ffn_up.weight", "ffn_up.bias", "ffn_down.weight",
            "ffn_down.bias"})
        put(block + name);
    }
    put("output_norm.weight");
    put("output_norm.bias");
    return values;
  };
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "model").string();
  {
    std::ofstream file(path, std::ios::binary);
    const int32_t sizes[] = {23, 20, 2, 3, 24, kBatch, kLength};
    const std::vector<float> weights = order(false);
    file.write(reinterpret_cast<const char*>(sizes), sizeof sizes);
    file.write(reinterpret_cast<const char*>(weights.data()),
               static_cast<std::streamsize>(weights.size() * sizeof(float)));
    file.write(reinterpret_cast<const char*>(all.data()),
               static_cast<std::streamsize>(all.size() * sizeof(int32_t)));
  }
  ASSERT_EQ(std::system(fmt::format("'{}' '{}' > /dev/null", STRATA_GPT2_STRAIGHT, path).c_str()),
            0);
  std::ifstream file(path + ".out", std::ios::binary);
  double straight_loss = 0;
  const std::vector<float> mine = order(true);
  std::vector<float> theirs(mine.size());
  file.read(reinterpret_cast<char*>(&straight_loss), sizeof straight_loss);
  file.read(reinterpret_cast<char*>(theirs.data()),
            static_cast<std::streamsize>(theirs.size() * sizeof(float)));
  ASSERT_TRUE(file);
  EXPECT_NEAR(loss.sum / (kBatch * kLength), straight_loss, 1e-5 * straight_loss);
  double largest = 0;
  for (const float g : theirs) largest = std::max(largest, std::abs(double{g}));
  EXPECT_GT(largest, 0.01);
  for (size_t i = 0; i < mine.size(); ++i) ASSERT_NEAR(mine[i], theirs[i], 2e-5 * largest) << i;
}

}  // namespace
}  // namespace strata
