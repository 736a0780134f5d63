// The catalogue's models as they are served, against outside figures: llama.cpp's perplexities and
// transformers' greedy text. Minutes, so a tier of its own (scripts/test --all=models).
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <sstream>

#include "engine/chat_prompt.h"
#include "engine/model_files.h"
#include "engine/serve_exec.h"
#include "eval/compare.h"
#include "eval/perplexity.h"
#include "exec/ref_exec.h"
#include "numeric/activations.h"
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
                         [](const auto& test) {
                           std::string name = test.param.model;
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
  scoring.first_token = files.tokenizer->specials().first();
  const PerplexityResult result =
      perplexity(exec, *model, files.tokenizer->encode(read_text(text)), scoring);
  EXPECT_EQ(result.tokens, 20 * 255);
  EXPECT_NEAR(result.perplexity / GetParam().perplexity, 1.0, 0.01);
  fmt::print("perplexity of {}: {:.4f} +- {:.3f}, llama.cpp {:.4f} ({:+.2f} %)\n", GetParam().model,
             result.perplexity, result.standard_error, GetParam().perplexity,
             (result.perplexity / GetParam().perplexity - 1) * 100);
}

// Teacher-forced: one pass over each prompt and transformers' greedy text, which was computed in
// f32. A place is clear where strata's two best logits are more than 0.1 apart. With nearly exact
// activations every clear place must agree. int8 activations move the two best logits by about 0.1
// against each other, so in the default a few clear places differ (less than one in a hundred);
// they are printed.
struct GreedyCount {
  int64_t places = 0, clear_misses = 0, unclear_misses = 0;
};

GreedyCount compare_greedy_text(const char* name, Activations activations) {
  constexpr double kClearGap = 0.1;
  const auto model = load_model(model_path(name));
  ServeExecOptions options;
  options.context = 1024;
  options.activations = activations;
  ServeExec exec(*model, options);
  GreedyCount count;
  const Json golden = Json::parse(read_text(golden_path(fmt::format("greedy/{}.json", name))));
  EXPECT_EQ(golden.at("prompts").size(), 10u);
  for (const Json& prompt : golden.at("prompts")) {
    const auto ids = prompt.at("ids").get<std::vector<TokenId>>();
    const auto gaps = prompt.at("gaps").get<std::vector<double>>();
    count.places += static_cast<int64_t>(ids.size());
    for (const GreedyMiss& miss :
         check_greedy(exec, *model, prompt.at("prompt_ids").get<std::vector<TokenId>>(), ids)) {
      const double gap = gaps[static_cast<size_t>(miss.index)];
      fmt::print("{}: place {}: {} instead of {}, gap {:.3f} there and {:.3f} here\n", name,
                 miss.index, miss.best, miss.expected, gap, miss.gap);
      ++(miss.gap > kClearGap ? count.clear_misses : count.unclear_misses);
    }
  }
  EXPECT_GT(count.places, 400);
  fmt::print("greedy text of {} ({} activations): {} places, {} clear ones differ, {} others\n",
             name, activations_name(activations), count.places, count.clear_misses,
             count.unclear_misses);
  return count;
}

TEST_P(RealModel, BestTokensAreTransformers) {
  STRATA_NEEDS(model_path(GetParam().model));
  EXPECT_EQ(compare_greedy_text(GetParam().model, Activations::int8x2).clear_misses, 0);
  const GreedyCount fast = compare_greedy_text(GetParam().model, Activations::int8);
  EXPECT_LE(fast.clear_misses * 100, fast.places);
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

// Keeps what a request gives, for the one who waits for its end.
class Collected final : public ResultSink {
 public:
  void on_token(const TokenEvent& event) override {
    ids.insert(ids.end(), event.ids.begin(), event.ids.end());
    text += event.text;
  }
  void on_done(const RequestSummary&) override { done.set_value(); }

  std::vector<TokenId> ids;
  std::string text;
  std::promise<void> done;
};

// The next turn of a chat is rendered from texts. Where the answer's text tokenizes to the ids that
// were generated, the next prompt begins with ids the cache may already hold; reported for the
// prefix cache to come.
TEST(ChatTurns, MostRenderToTheIdsThatWereGenerated) {
  const auto questions = test_data_path("instructions.jsonl");
  STRATA_NEEDS(questions);
  for (const char* name : {"smollm2-135m", "qwen2.5-coder-0.5b"}) {
    const auto path = model_path(name);
    STRATA_NEEDS(path);
    EngineOptions options;
    options.context = 2048;
    const auto engine = Engine::load(path.string(), options);
    std::ifstream file(questions);
    int turns = 0, stable = 0;
    for (std::string line; turns < 40 && std::getline(file, line); ++turns) {
      const Json entry = Json::parse(line);
      OrderedJson messages = OrderedJson::array();
      messages.push_back(
          {{"role", "user"}, {"content", entry.at("instruction").get<std::string>()}});
      GenerationRequest request;
      request.prompt = chat_prompt(*engine, messages);
      request.max_tokens = 64;
      request.sampling.seed = static_cast<uint64_t>(turns);
      std::vector<TokenId> told = request.prompt;
      const auto sink = std::make_shared<Collected>();
      uint64_t id = 0;
      ASSERT_EQ(engine->submit(std::move(request), sink, id), Submit::accepted);
      sink->done.get_future().wait();
      told.insert(told.end(), sink->ids.begin(), sink->ids.end());
      messages.push_back({{"role", "assistant"}, {"content", sink->text}});
      messages.push_back({{"role", "user"}, {"content", "Go on."}});
      const std::vector<TokenId> next = chat_prompt(*engine, messages);
      stable +=
          next.size() > told.size() && std::equal(told.begin(), told.end(), next.begin()) ? 1 : 0;
    }
    EXPECT_GE(stable, turns / 2);
    fmt::print("chat turns of {}: {} of {} render to the ids that were generated\n", name, stable,
               turns);
  }
}

}  // namespace
}  // namespace strata
