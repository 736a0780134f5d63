// The catalogue's models as they are served, against outside figures: llama.cpp's perplexities and
// transformers' greedy text. Minutes, so a tier of its own (scripts/test --all=models).
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "engine/model_files.h"
#include "engine/serve_exec.h"
#include "eval/compare.h"
#include "eval/perplexity.h"
#include "exec/ref_exec.h"
#include "support/test_data.h"

namespace strata {
namespace {

using testing::golden_path;
using testing::model_path;
using testing::test_data_path;

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Published {
  const char* model;
  double perplexity;
};

class RealModel : public ::testing::TestWithParam<Published> {};

// llama-perplexity of llama.cpp (llama-cpp-python 0.3.36), wikitext2-test.txt, -c 512 --chunks 20,
// on a machine with AVX2.
INSTANTIATE_TEST_SUITE_P(Catalogue, RealModel,
                         ::testing::Values(Published{"smollm2-135m", 23.1388},
                                           Published{"gemma3-270m", 16.6161},
                                           Published{"qwen2.5-coder-0.5b", 30.1388},
                                           Published{"qwen2.5-coder-1.5b", 14.4345}),
                         [](const auto& info) {
                           std::string name = info.param.model;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

TEST_P(RealModel, PerplexityIsWithinOnePercent) {
  const auto path = model_path(GetParam().model);
  const auto text = test_data_path("wikitext2-test.txt");
  STRATA_NEEDS(path);
  STRATA_NEEDS(text);
  const auto model = load_model(path);
  const ModelFiles files = load_model_files(*model);
  ServeExecOptions options;
  options.context = 512;
  ServeExec exec(*model, options);
  PerplexityOptions scoring;
  scoring.chunks = 20;
  if (files.tokenizer->specials().add_bos) scoring.first_token = files.tokenizer->specials().bos;
  const PerplexityResult result =
      perplexity(exec, *model, files.tokenizer->encode(read_text(text)), scoring);
  EXPECT_EQ(result.tokens, 20 * 255);
  EXPECT_NEAR(result.perplexity / GetParam().perplexity, 1.0, 0.01);
  fmt::print("perplexity of {}: {:.4f} +- {:.3f}, llama.cpp {:.4f} ({:+.2f} %)\n", GetParam().model,
             result.perplexity, result.standard_error, GetParam().perplexity,
             (result.perplexity / GetParam().perplexity - 1) * 100);
}

// Best tokens may differ only where the reference itself was nearly undecided: the rest is
// reported.
TEST_P(RealModel, BestTokensAreTransformersOnes) {
  const auto path = model_path(GetParam().model);
  const auto golden_file = golden_path(fmt::format("greedy/{}.json", GetParam().model));
  STRATA_NEEDS(path);
  ASSERT_TRUE(std::filesystem::exists(golden_file)) << golden_file;
  constexpr double kClearGap = 0.1;
  constexpr double kClearMissShare = 0.01;
  const auto model = load_model(path);
  ServeExecOptions options;
  options.context = 1024;
  ServeExec exec(*model, options);
  int64_t places = 0, clear_misses = 0, unclear_misses = 0;
  const Json golden = Json::parse(read_text(golden_file));
  for (const Json& prompt : golden.at("prompts")) {
    const auto ids = prompt.at("ids").get<std::vector<TokenId>>();
    const auto gaps = prompt.at("gaps").get<std::vector<double>>();
    places += static_cast<int64_t>(ids.size());
    for (const GreedyMiss& miss :
         check_greedy(exec, *model, prompt.at("prompt_ids").get<std::vector<TokenId>>(), ids)) {
      const double gap = gaps[static_cast<size_t>(miss.index)];
      fmt::print("{}: place {}: {} instead of {}, gap {:.3f} there and {:.3f} here\n",
                 GetParam().model, miss.index, miss.best, miss.expected, gap, miss.gap);
      ++(gap > kClearGap && miss.gap > kClearGap ? clear_misses : unclear_misses);
    }
  }
  EXPECT_EQ(places, 640);
  EXPECT_LE(static_cast<double>(clear_misses), kClearMissShare * static_cast<double>(places));
  fmt::print("greedy text of {}: {} places, {} clear ones differ, {} others\n", GetParam().model,
             places, clear_misses, unclear_misses);
}

// What int8 activations and the f16 cache cost: KL against exact arithmetic on the same weights.
TEST(Divergence, FromExactActivationsIsSmall) {
  const auto text = test_data_path("wikitext2-test.txt");
  STRATA_NEEDS(text);
  for (const char* name : {"smollm2-135m", "qwen2.5-coder-0.5b"}) {
    const auto path = model_path(name);
    STRATA_NEEDS(path);
    const auto model = load_model(path);
    const ModelFiles files = load_model_files(*model);
    std::vector<TokenId> tokens = files.tokenizer->encode(read_text(text).substr(0, 4096));
    ASSERT_GE(tokens.size(), 512u);
    tokens.resize(512);
    RefOptions exact;
    exact.threads = usable_threads();
    RefExec reference(exact);
    ServeExecOptions options;
    options.context = 512;
    ServeExec exec(*model, options);
    const Divergence d = compare_distributions(reference, exec, *model, tokens);
    EXPECT_EQ(d.positions, 512);
    EXPECT_LT(d.mean_kl, 0.01);
    EXPECT_GT(d.same_best, 0.95);
    fmt::print("KL of {}: mean {:.5f}, largest {:.4f}, same best token {:.1f} %\n", name, d.mean_kl,
               d.largest_kl, d.same_best * 100);
  }
}

}  // namespace
}  // namespace strata
