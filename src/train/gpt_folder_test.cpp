// What a trained GPT is written as: transformers computes the same from it (tests/golden/train,
// tools/oracle/train_folders.py), and so does strata.
#include "train/gpt_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "base/json.h"
#include "model/test_models.h"
#include "support/isa_level_test.h"
#include "text/load_tokenizer.h"
#include "train/character_tokenizer.h"
#include "train/memory_tensors.h"

namespace strata {
namespace {

constexpr int kRows = 12;

GptConfig base() {
  GptConfig c;
  c.vocabulary = 11;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 4;
  c.hidden = 32;
  c.mlp = 48;
  c.context = 16;
  return c;
}

struct Case {
  std::string name;
  GptConfig config;
};
std::vector<Case> cases() {
  Case gpt2{"gpt2_learned", base()};
  Case bare{"gpt2_sinusoidal_no_bias", base()};
  bare.config.positions = GptPositions::sinusoidal;
  bare.config.bias = false;
  bare.config.activation = Activation::gelu_erf;
  bare.config.tied = false;
  Case llama{"llama", base()};
  llama.config.positions = GptPositions::rotary;
  llama.config.norm = NormKind::rms;
  llama.config.gated = true;
  llama.config.activation = Activation::silu;
  llama.config.bias = false;
  llama.config.kv_heads = 2;
  llama.config.rope_base = 500;
  Case own{"strata_rotary_layer", base()};
  own.config.positions = GptPositions::rotary;
  own.config.kv_heads = 2;
  Case gated{"strata_learned_rms_gated", base()};
  gated.config.norm = NormKind::rms;
  gated.config.gated = true;
  gated.config.tied = false;
  gated.config.bias = false;
  return {gpt2, bare, llama, own, gated};
}

// Weights large enough that attention is far from uniform and every bias tells.
std::unique_ptr<Model> lively_gpt(const GptConfig& config) {
  auto model = make_gpt(config, 7);
  const auto& memory = dynamic_cast<const MemoryTensors&>(*model->store);
  for (const WeightRef& w : model->weights) {
    float* values = memory.values(w);
    const std::vector<float> extra =
        test_values(w.out * w.in, static_cast<uint32_t>(w.id) + 1, 0.5f);
    for (int64_t i = 0; i < w.out * w.in; ++i) values[i] += extra[static_cast<size_t>(i)];
  }
  return model;
}

std::vector<double> logits_of(const Model& model) {
  std::vector<int32_t> tokens, rows(kRows);
  for (int i = 0; i < kRows; ++i) tokens.push_back(i * 7 % 11);
  std::iota(rows.begin(), rows.end(), 0);
  return testing::run(model, tokens, rows);
}

class GptFolder : public ::testing::TestWithParam<Case> {};

TEST_P(GptFolder, ReadBackItIsTheSameModel) {
  const testing::TemporaryFolder folder;
  const auto model = lively_gpt(GetParam().config);
  const ParameterTable parameters(*model);
  write_gpt_folder(folder.path(), GetParam().config, parameters,
                   character_tokenizer_json("abcdefghij"));
  // For tools/oracle/train_folders.py.
  if (const char* keep = std::getenv("STRATA_WRITE_FOLDERS"))
    std::filesystem::copy(folder.path(), std::filesystem::path(keep) / GetParam().name,
                          std::filesystem::copy_options::recursive);
  const auto read = load_model(folder.path(), {.strict = true});
  EXPECT_EQ(logits_of(*read), logits_of(*model));
  EXPECT_EQ(load_tokenizer(folder.path())->vocabulary_size(), 11);
  // Each name says which layout it is.
  EXPECT_EQ(read->config.architecture, GetParam().name.rfind("gpt2", 0) == 0    ? "gpt2"
                                       : GetParam().name.rfind("llama", 0) == 0 ? "llama"
                                                                                : "strata_gpt");
  const auto fresh = make_gpt(GetParam().config, 8);
  const ParameterTable masters(*fresh);
  read_gpt_weights(folder.path(), masters);
  EXPECT_EQ(logits_of(*fresh), logits_of(*model));
}

TEST_P(GptFolder, TransformersComputesTheSame) {
  std::ifstream file("tests/golden/train/folders.json");
  const Json golden = Json::parse(file).at("logits");
  if (gpt_layout(GetParam().config) == GptLayout::strata) {
    EXPECT_FALSE(golden.contains(GetParam().name));
    return;
  }
  const auto wanted = golden.at(GetParam().name).get<std::vector<double>>();
  EXPECT_LT(testing::relative_error(logits_of(*lively_gpt(GetParam().config)), wanted), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Layouts, GptFolder, ::testing::ValuesIn(cases()),
                         [](const auto& p) { return p.param.name; });

TEST(GptModel, InitialisationHasGpt2sDeviations) {
  GptConfig c = base();
  c.hidden = 128;
  c.mlp = 512;
  const auto model = make_gpt(c, 1);
  const ParameterTable parameters(*model);
  for (const Parameter& p : parameters.all()) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < p.size(); ++i) {
      sum += double{p.value[i]};
      squares += double{p.value[i]} * double{p.value[i]};
    }
    const auto n = static_cast<double>(p.size());
    const double deviation = std::sqrt(squares / n);
    if (!p.matrix()) {
      EXPECT_EQ(deviation, p.name.find(".bias") == std::string::npos ? 1.0 : 0.0) << p.name;
      continue;
    }
    const bool residual = p.name.find("attn_output") != std::string::npos ||
                          p.name.find("ffn_down") != std::string::npos;
    const double wanted = residual ? 0.01 : 0.02;  // 0.02 / sqrt(2 x 2 layers)
    // Five standard deviations of the estimates.
    EXPECT_NEAR(deviation, wanted, wanted * 5 / std::sqrt(2 * n)) << p.name;
    EXPECT_NEAR(sum / n, 0, wanted * 5 / std::sqrt(n)) << p.name;
  }
}

}  // namespace
}  // namespace strata
