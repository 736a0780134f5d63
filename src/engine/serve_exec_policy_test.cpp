#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "engine/fed_sequence_for_test.h"
#include "engine/random_model_for_test.h"
#include "engine/serve_exec.h"
#include "exec/ref_exec.h"
#include "model/model.h"

namespace strata {
namespace {

// The model with a window in every layer.
void set_window(Model& model, int window) {
  LayerGroup all;
  all.window = window;
  for (size_t i = 0; i < model.transformer.block_configs.size(); ++i) {
    model.transformer.block_configs[i].attention.window = window;
    model.transformer.block_configs[i].attention.layer_group = 0;
    all.layers.push_back(static_cast<int>(i));
  }
  model.layer_groups = {all};
}

std::vector<float> reference(const Model& model, const std::vector<int32_t>& tokens) {
  RefExec ex;
  std::vector<int32_t> positions(tokens.size()), rows(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::iota(rows.begin(), rows.end(), 0);
  const SequenceRows part{0, static_cast<int32_t>(tokens.size()), 0, -1};
  const Tensor hidden = forward_hidden(ex, model.transformer, Batch{tokens, positions, {&part, 1}});
  const Tensor logits = forward_logits(ex, model.transformer, hidden, rows);
  std::vector<float> out;
  for (int64_t r = 0; r < logits.rows; ++r)
    for (int64_t c = 0; c < logits.columns; ++c)
      out.push_back(static_cast<float>(logits.row<double>(r)[c]));
  return out;
}

// A policy of N gives the bits of a model whose layers have that window, and these are f64's
// numbers within rounding, from the first token to three windows and beyond, whether a prompt is
// longer than the window or is read token by token; whether the policy is the executor's or the
// sequence's.
TEST(KvPolicyOfAnExecutor, AWindowIsExact) {
  RandomModelOptions options;
  options.linear_type = options.embedding_type = TensorType::f32;
  const auto model = random_model(options), windowed = random_model(options);
  for (const int window : {1, 15, 16, 33, 64}) {
    set_window(*windowed, window);
    const std::vector<int32_t> tokens = random_tokens(3 * window + 20, options.vocabulary, 3);
    ServeExec full(*model, small(2, KvType::f32)), layers(*windowed, small(2, KvType::f32));
    ServeExecOptions narrow = small(1, KvType::f32);
    narrow.kv_policy.window = window;
    ServeExec policy(*model, narrow);
    const std::vector<float> want = alone(layers, *windowed, tokens, {1});
    EXPECT_EQ(alone(full, *model, tokens, {256}, {.window = window}), want) << window;
    EXPECT_EQ(alone(full, *model, tokens, {7, 1, 40}, {.window = window}), want) << window;
    EXPECT_EQ(alone(policy, *model, tokens, {256}), want) << window;
    EXPECT_EQ(alone(policy, *model, tokens, {1}), want) << window;
    const std::vector<float> ref = reference(*windowed, tokens);
    ASSERT_EQ(ref.size(), want.size());
    for (size_t i = 0; i < ref.size(); ++i)
      ASSERT_NEAR(want[i], ref[i], 2e-4f) << "window " << window << ", value " << i;
    // Without the window the numbers are others as soon as it has moved.
    const std::vector<float> all = alone(full, *model, tokens, {256});
    const auto seen = static_cast<ptrdiff_t>(window * options.vocabulary);
    EXPECT_TRUE(std::equal(all.begin(), all.begin() + seen, want.begin()));
    EXPECT_FALSE(std::equal(all.begin() + seen, all.begin() + seen + 1, want.begin() + seen));
  }
}

// Sequences of every policy in one pass, in any cut, give what they give alone.
TEST(KvPolicyOfAnExecutor, PoliciesMixInABatch) {
  for (const int own_window : {0, 40}) {
    RandomModelOptions options;
    options.window = own_window;
    options.qk_norm = true;
    const auto model = random_model(options);
    ServeExec ex(*model, small(2));
    const std::vector<KvPolicy> policies = {{}, {30, 0}, {30, 4}, {5, 70}, {64, 16}, {100, 1}};
    std::vector<FedSequence> sequences;
    std::vector<std::vector<float>> want;
    for (const KvPolicy& policy : policies) {
      sequences.push_back({random_tokens(260, options.vocabulary, 8)});
      want.push_back(alone(ex, *model, sequences.back().tokens, {1}, policy));
      EXPECT_EQ(alone(ex, *model, sequences.back().tokens, {256}, policy), want.back());
      sequences.back().cache = ex.create_cache(policy);
    }
    for (size_t i = 1; i < want.size(); ++i) EXPECT_NE(want[i], want[0]) << "a policy acts";
    std::mt19937 random(1);
    for (;;) {
      std::vector<FedSequence*> step;
      std::vector<int64_t> rows;
      for (FedSequence& s : sequences) {
        if (s.done == 260) continue;
        step.push_back(&s);
        rows.push_back(std::min<int64_t>(260 - s.done, 1 + static_cast<int64_t>(random() % 2) * 9));
      }
      if (step.empty()) break;
      pass(ex, *model, step, rows);
    }
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(sequences[i].logits, want[i]) << kv_policy_name(policies[i]);
  }
}

TEST(KvPolicyOfAnExecutor, SinksGoOnBeyondTheContextInConstantMemory) {
  RandomModelOptions options;
  options.context = 128;
  const auto model = random_model(options);
  ServeExecOptions exec = small(1);
  exec.kv_policy = {.window = 60, .sinks = 4};
  exec.context = 100'000;
  exec.step_rows = 64;
  exec.kv_memory = 1 << 20;
  ServeExec ex(*model, exec);
  EXPECT_EQ(ex.context_length(), 100'000);
  const std::vector<int32_t> tokens = random_tokens(3000, options.vocabulary, 2);
  FedSequence chunks{tokens}, single{tokens};
  chunks.cache = ex.create_cache();
  single.cache = ex.create_cache();
  int64_t most = 0;
  while (chunks.done < 3000) {
    pass(ex, *model, {&chunks}, {std::min<int64_t>(60, 3000 - chunks.done)});
    most = std::max(most, ex.kv().used_pages());
  }
  EXPECT_LE(most, 1 + (60 + 60 + 15) / 16 + 1);
  while (single.done < 3000) pass(ex, *model, {&single}, {1});
  EXPECT_EQ(chunks.logits, single.logits) << "far beyond the table of angles, too";
  for (const float x : chunks.logits) ASSERT_TRUE(std::isfinite(x));

  exec.kv_policy = {.window = 60};
  EXPECT_EQ(ServeExec(*model, exec).context_length(), 128) << "a window's positions are the text's";
}

TEST(KvPolicyOfAnExecutor, RefusesWhatMakesNoSense) {
  RandomModelOptions options;
  options.context = 100;
  const auto model = random_model(options);
  EXPECT_THROW(check_kv_policy(*model, KvType::f16, {.window = 97, .sinks = 4}), Error);
  check_kv_policy(*model, KvType::f16, {.window = 96, .sinks = 4});
  check_kv_policy(*model, KvType::f16, {.window = 1000});
  EXPECT_THROW(check_kv_policy(*model, KvType::q8, {.window = 50, .sinks = 4}), Error);
  check_kv_policy(*model, KvType::q4, {.window = 50});
  options.learned_positions = true;
  const auto learned = random_model(options);
  EXPECT_THROW(check_kv_policy(*learned, KvType::f16, {.window = 50, .sinks = 4}), Error);
  check_kv_policy(*learned, KvType::f16, {.window = 50});
}

// Against the paper's own procedure in float64: tools/oracle/streaming_llm.py.
TEST(KvPolicyOfAnExecutor, AgreesWithStreamingLlm) {
  const std::filesystem::path golden = "tests/golden";
  std::ifstream file(golden / "streaming/cases.json");
  const Json cases = Json::parse(file);
  const auto tokens = cases["tokens"].get<std::vector<int32_t>>();
  for (const Json& c : cases["cases"]) {
    const auto model = load_model(golden / "architectures" / c["model"].get<std::string>());
    const KvPolicy policy{.window = c["window"].get<int64_t>(), .sinks = c["sinks"].get<int64_t>()};
    const auto name = c["name"].get<std::string>();
    std::ifstream logits(golden / "streaming" / (name + ".f64"), std::ios::binary);
    ServeExec ex(*model, small(1, KvType::f32));
    for (const int64_t cut : {1, 100}) {
      const std::vector<float> got = alone(ex, *model, tokens, {cut}, policy);
      logits.clear();
      logits.seekg(0);
      for (const int64_t position : cases["positions"].get<std::vector<int64_t>>())
        for (int64_t i = 0; i < model->config.vocabulary_size; ++i) {
          double want = 0;
          ASSERT_TRUE(logits.read(reinterpret_cast<char*>(&want), sizeof(want)));
          const auto at = static_cast<size_t>(position * model->config.vocabulary_size + i);
          ASSERT_NEAR(static_cast<double>(got[at]), want, 2e-5 * (1 + std::abs(want)))
              << name << ", position " << position;
        }
    }
  }
}

}  // namespace
}  // namespace strata
