// Every architecture against transformers (tests/golden/architectures,
// tools/oracle/architectures.py).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "model/test_models.h"

namespace strata::testing {
namespace {

constexpr double kTolerance = 1e-9;

std::vector<double> run_golden(const Model& model, const RefOptions& options = {}) {
  return run(model, goldens().tokens, goldens().positions, options);
}

class Architectures : public ::testing::TestWithParam<std::string> {};

TEST_P(Architectures, EqualTransformersInDoubleAndSinglePrecision) {
  const std::unique_ptr<Model> model = load_golden(GetParam());
  EXPECT_TRUE(model->config.unknown_keys.empty()) << model->config.unknown_keys.front();
  const std::vector<double> logits = run_golden(*model);
  const double in_double = relative_error(logits, golden_logits(GetParam()));
  const double in_single = relative_error(logits, golden_logits_f32(GetParam()));
  RecordProperty("relative_error_f64", std::to_string(in_double));
  std::printf("%-20s f64 %.1e  f32 %.1e\n", GetParam().c_str(), in_double, in_single);
  EXPECT_LE(in_double, kTolerance);
  EXPECT_LE(in_single, 1e-4);
}

// The keys these cases differ in have no GGUF form.
bool has_gguf_form(const std::string& name) {
  return name != "qwen2_window" && name != "gpt2_inverse_layer" && name != "gemma3_scaling" &&
         name != "llama_yarn_options";
}

TEST_P(Architectures, GgufTwinGivesTheSameLogits) {
  if (!has_gguf_form(GetParam())) return;
  const TemporaryFolder folder;
  write_gguf_twin(folder.path() / "twin.gguf", golden_case(GetParam()));
  const std::unique_ptr<Model> model = load_model(folder.path() / "twin.gguf");
  EXPECT_TRUE(model->config.unknown_keys.empty()) << model->config.unknown_keys.front();
  // rope_freqs.weight has the frequencies' divisors in f32: 2^-24 of an angle of up to 320.
  const double tolerance = GetParam() == "llama_llama3" ? 1e-4 : kTolerance;
  EXPECT_LE(relative_error(run_golden(*model), golden_logits(GetParam())), tolerance);
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const GoldenCase& c : goldens().cases) names.push_back(c.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Goldens, Architectures, ::testing::ValuesIn(case_names()),
                         [](const auto& test) { return test.param; });

// ---- Each switch of the configuration matters ---------------------------------------------------

using Flip = std::function<void(Model&)>;

void for_each_block(Model& m, const std::function<void(BlockWeights&, BlockConfig&)>& change) {
  for (size_t i = 0; i < m.transformer.blocks.size(); ++i)
    change(m.transformer.blocks[i], m.transformer.block_configs[i]);
}

void for_each_norm(Model& m, const std::function<void(Norm&)>& change) {
  for (BlockWeights& w : m.transformer.blocks)
    for (Norm* n : {&w.attn_norm, &w.mlp_norm, &w.attn_post_norm, &w.mlp_post_norm, &w.attn.q_norm,
                    &w.attn.k_norm})
      if (*n) change(*n);
  change(m.transformer.output_norm);
}

// A golden test that cannot see a switch proves nothing about it.
void expect_moves(const std::string& name, const std::string& what, const Flip& flip) {
  const std::unique_ptr<Model> model = load_golden(name);
  flip(*model);
  const double moved = relative_error(run_golden(*model), golden_logits(name));
  EXPECT_GE(moved, 100 * kTolerance) << name << ": " << what;
  // A flip that only makes numbers overflow would prove nothing either.
  EXPECT_LT(moved, 100) << name << ": " << what;
}

TEST(Switches, RopeLayoutBaseScalingAndAttentionFactor) {
  for (const char* name : {"llama", "llama_bias", "mistral", "qwen2", "qwen3", "gemma3"}) {
    expect_moves(name, "layout", [](Model& m) {
      for (auto& rope : m.ropes) rope->layout = Rope::Layout::pairs;
    });
    expect_moves(name, "base", [](Model& m) {
      for (size_t i = 0; i < m.ropes[0]->inverse_frequency.size(); ++i)
        m.ropes[0]->inverse_frequency[i] *= std::pow(1.001, -static_cast<double>(i));
    });
    expect_moves(name, "none", [](Model& m) {
      for_each_block(m, [](BlockWeights&, BlockConfig& c) { c.attention.rope = nullptr; });
    });
  }
  for (const char* name : {"llama_linear", "llama_llama3", "llama_yarn"})
    expect_moves(name, "scaling", [](Model& m) { *m.ropes[0] = *load_golden("llama")->ropes[0]; });
  expect_moves("llama_yarn", "attention factor",
               [](Model& m) { m.ropes[0]->attention_factor = 1; });
  expect_moves("llama_yarn_options", "yarn's options", [](Model& m) {
    const double factor = m.ropes[0]->attention_factor;
    *m.ropes[0] = *load_golden("llama_yarn")->ropes[0];
    m.ropes[0]->attention_factor = factor;
  });
  expect_moves("gemma3", "local base", [](Model& m) { *m.ropes[1] = *m.ropes[0]; });
  expect_moves("gemma3_scaling", "scaling of global layers", [](Model& m) {
    for (double& f : m.ropes[0]->inverse_frequency) f *= 8;
  });
}

TEST(Switches, WindowsAndScaleOfAttention) {
  const auto window_by = [](int change) {
    return [change](Model& m) {
      for_each_block(m, [&](BlockWeights&, BlockConfig& c) {
        if (c.attention.window > 0) c.attention.window += change;
      });
    };
  };
  for (const char* name : {"mistral", "qwen2_window", "gemma3"}) {
    expect_moves(name, "window - 1", window_by(-1));
    expect_moves(name, "window + 1", window_by(1));
    expect_moves(name, "no window", [](Model& m) {
      for_each_block(m, [](BlockWeights&, BlockConfig& c) { c.attention.window = 0; });
    });
  }
  expect_moves("qwen2_window", "which layers", [](Model& m) {
    std::swap(m.transformer.block_configs[0].attention.window,
              m.transformer.block_configs[1].attention.window);
  });
  expect_moves("gemma3", "which layers", [](Model& m) {
    std::swap(m.transformer.block_configs[5].attention.window,
              m.transformer.block_configs[6].attention.window);
  });
  for (const char* name : {"llama", "gemma3_scaling", "gpt2", "gpt2_inverse_layer"})
    expect_moves(name, "scale", [](Model& m) {
      for_each_block(m, [](BlockWeights&, BlockConfig& c) { c.attention.scale *= 1.0001; });
    });
}

TEST(Switches, Norms) {
  for (const char* name : {"llama", "gemma3", "gpt2", "qwen3"}) {
    expect_moves(name, "kind", [](Model& m) {
      for_each_norm(
          m, [](Norm& n) { n.kind = n.kind == NormKind::rms ? NormKind::layer : NormKind::rms; });
    });
    expect_moves(name, "epsilon",
                 [](Model& m) { for_each_norm(m, [](Norm& n) { n.epsilon *= 1.5; }); });
    expect_moves(name, "weight offset", [](Model& m) {
      for_each_norm(m, [](Norm& n) { n.weight_offset = 1 - n.weight_offset; });
    });
  }
  for (const char* name : {"qwen3", "gemma3"})
    for (Norm AttentionWeights::*norm : {&AttentionWeights::q_norm, &AttentionWeights::k_norm})
      expect_moves(name, "q or k norm", [norm](Model& m) {
        for_each_block(m, [&](BlockWeights& w, BlockConfig&) { w.attn.*norm = Norm{}; });
      });
  for (Norm BlockWeights::*norm : {&BlockWeights::attn_post_norm, &BlockWeights::mlp_post_norm})
    expect_moves("gemma3", "post norm", [norm](Model& m) {
      for_each_block(m, [&](BlockWeights& w, BlockConfig&) { w.*norm = Norm{}; });
    });
  expect_moves("gpt2", "norm bias",
               [](Model& m) { for_each_norm(m, [](Norm& n) { n.bias = WeightRef{}; }); });
}

TEST(Switches, Biases) {
  const auto drop = [](const std::string& name, const std::string& what,
                       const std::function<Linear&(BlockWeights&)>& linear) {
    expect_moves(name, what, [&](Model& m) {
      for_each_block(m, [&](BlockWeights& w, BlockConfig&) {
        EXPECT_TRUE(linear(w).bias) << name << ": " << what;
        linear(w).bias = WeightRef{};
      });
    });
  };
  // A bias of all keys of a head would cancel in the softmax were it not for rope.
  for (const char* name : {"llama_bias", "qwen2", "gpt2"}) {
    drop(name, "q", [](BlockWeights& w) -> Linear& { return w.attn.q; });
    drop(name, "v", [](BlockWeights& w) -> Linear& { return w.attn.v; });
  }
  for (const char* name : {"llama_bias", "qwen2"})
    drop(name, "k", [](BlockWeights& w) -> Linear& { return w.attn.k; });
  for (const char* name : {"llama_bias", "gpt2"}) {
    drop(name, "output", [](BlockWeights& w) -> Linear& { return w.attn_output; });
    drop(name, "up", [](BlockWeights& w) -> Linear& { return w.mlp.up; });
    drop(name, "down", [](BlockWeights& w) -> Linear& { return w.mlp.down; });
  }
  drop("llama_bias", "gate", [](BlockWeights& w) -> Linear& { return w.mlp.gate; });
}

TEST(Switches, ActivationEmbeddingAndHead) {
  for (const char* name : {"llama", "gemma3", "gpt2"})
    expect_moves(name, "activation", [](Model& m) {
      for_each_block(m, [](BlockWeights&, BlockConfig& c) {
        c.activation =
            c.activation == Activation::silu ? Activation::gelu_tanh : Activation::gelu_erf;
      });
    });
  expect_moves("llama", "gate", [](Model& m) {
    for_each_block(m, [](BlockWeights& w, BlockConfig&) { w.mlp.gate = Linear{}; });
  });
  expect_moves("gemma3", "embedding scale", [](Model& m) { m.transformer.embedding.scale = 1; });
  expect_moves("gpt2", "positions",
               [](Model& m) { m.transformer.embedding.positions = WeightRef{}; });
  for (const char* name : {"llama", "mistral", "qwen3"})
    expect_moves(name, "tying", [](Model& m) {
      EXPECT_FALSE(m.config.tied_head);
      m.transformer.head.weight = m.transformer.embedding.tokens;
    });
  for (const char* name : {"llama_bias", "qwen2", "gemma3", "gpt2"}) {
    const std::unique_ptr<Model> model = load_golden(name);
    EXPECT_TRUE(model->config.tied_head);
    EXPECT_EQ(model->transformer.head.weight.id, model->transformer.embedding.tokens.id);
  }
}

// ---- Properties ---------------------------------------------------------------------------------

TEST(Properties, ALaterTokenNeverChangesEarlierLogits) {
  for (const char* name : {"llama", "gemma3", "gpt2"}) {
    const std::unique_ptr<Model> model = load_golden(name);
    std::vector<int32_t> tokens(goldens().tokens.begin(), goldens().tokens.begin() + 60);
    const std::vector<int32_t> rows = {0, 17, 39};
    const std::vector<double> before = run(*model, tokens, rows);
    for (size_t i = 40; i < tokens.size(); ++i) tokens[i] = (tokens[i] + 1) % 64;
    EXPECT_EQ(run(*model, tokens, rows), before) << name;
  }
}

TEST(Properties, ThreadsAndCacheChangeNothing) {
  const std::unique_ptr<Model> model = load_golden("qwen2");
  RefOptions options;
  options.threads = 3;
  options.cache_weights = true;
  EXPECT_EQ(run_golden(*model, options), run_golden(*model));
}

TEST(Properties, SequencesOfABatchDoNotMeet) {
  const std::unique_ptr<Model> model = load_golden("mistral");
  const std::vector<int32_t> a(goldens().tokens.begin(), goldens().tokens.begin() + 70);
  const std::vector<int32_t> b(goldens().tokens.begin() + 100, goldens().tokens.begin() + 151);
  std::vector<int32_t> tokens = a;
  tokens.insert(tokens.end(), b.begin(), b.end());
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < 70; ++i) positions.push_back(i);
  for (int32_t i = 0; i < 51; ++i) positions.push_back(i);
  const std::vector<SequenceRows> sequences = {{0, 70, 0, -1}, {70, 51, 0, -1}};
  RefExec exec;
  const Tensor hidden =
      forward_hidden(exec, model->transformer, Batch{tokens, positions, sequences});
  const std::vector<int32_t> rows = {69, 120};
  const Tensor logits = forward_logits(exec, model->transformer, hidden, rows);
  const std::vector<double> alone_a = run(*model, a, {69});
  const std::vector<double> alone_b = run(*model, b, {50});
  EXPECT_TRUE(std::equal(alone_a.begin(), alone_a.end(), logits.row<double>(0)));
  EXPECT_TRUE(std::equal(alone_b.begin(), alone_b.end(), logits.row<double>(1)));
}

TEST(Comparator, SeesNanInfinityAndNegatives) {
  const double nan = std::nan("");
  EXPECT_EQ(relative_error({1, 2}, {1, 2}), 0);
  EXPECT_EQ(relative_error({0, 0}, {0, 0}), 0);
  EXPECT_DOUBLE_EQ(relative_error({-1, -3}, {-1, -2}), 0.5);
  EXPECT_DOUBLE_EQ(relative_error({1, 2}, {1, -2}), 2);
  for (const std::vector<double>& bad : {std::vector<double>{1, nan}, {1, INFINITY}, {1}, {}})
    EXPECT_TRUE(std::isinf(relative_error(bad, {1, 2})));
  EXPECT_TRUE(std::isinf(relative_error({1, 2}, {1, nan})));
}

}  // namespace
}  // namespace strata::testing
