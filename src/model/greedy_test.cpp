// RefExec on a real model against transformers' greedy text (tests/golden/greedy,
// tools/oracle/greedy.py), teacher-forced: one pass over prompt and continuation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "model/test_models.h"

namespace strata::testing {
namespace {

TEST(Greedy, SmolLm2AgreesWhereverTheChoiceIsClear) {
  std::filesystem::path path;
  try {
    path = resolve_model_path("smollm2-135m");
  } catch (const Error& e) {
    if (std::getenv("STRATA_REQUIRE_DATA") != nullptr) FAIL() << e.what();
    GTEST_SKIP() << e.what();
  }
  std::ifstream file("tests/golden/greedy/smollm2-135m.json");
  std::stringstream text;
  text << file.rdbuf();
  const Json golden = parse_json(text.str());
  const std::unique_ptr<Model> model = load_model(path);
  RefOptions options;
  options.threads = 2;

  // One of the ten prompts: the double-precision loops take seconds for each.
  const Json& prompt = golden.at("prompts").at(0);
  std::vector<int32_t> tokens = prompt.at("prompt_ids").get<std::vector<int32_t>>();
  const auto ids = prompt.at("ids").get<std::vector<int32_t>>();
  const auto gaps = prompt.at("gaps").get<std::vector<double>>();
  ASSERT_EQ(ids.size(), 64u);
  std::vector<int32_t> rows(ids.size());
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(tokens.size()) - 1);
  tokens.insert(tokens.end(), ids.begin(), ids.end() - 1);
  const std::vector<double> logits = run(*model, tokens, rows, options);
  const auto vocabulary = static_cast<std::ptrdiff_t>(model->config.vocabulary_size);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(i) * vocabulary;
    const auto best = static_cast<int32_t>(std::max_element(first, first + vocabulary) - first);
    if (gaps[i] > 0.1) {
      EXPECT_EQ(best, ids[i]) << "token " << i << ", gap " << gaps[i];
    }
  }
}

}  // namespace
}  // namespace strata::testing
