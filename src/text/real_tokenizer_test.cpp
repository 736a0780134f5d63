// The real models' vocabularies give the reference's ids on whole corpora
// (tools/oracle/tokenizers_golden.py), and their texts back.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "text/golden_check_for_test.h"
#include "text/load_tokenizer.h"
#include "text/long_words_check_for_test.h"

namespace strata {
namespace {

using testing::expect_committed_texts;
using testing::expect_outside_texts;
using testing::golden_path;
using testing::kPlain;
using testing::read_file;
using testing::read_golden;
using testing::test_data_path;

class Real : public ::testing::TestWithParam<const char*> {};

TEST_P(Real, EqualsTheReferenceOnEveryText) {
  const auto path = testing::model_path(GetParam());
  STRATA_NEEDS(path);
  STRATA_NEEDS(test_data_path("wikitext2-test.txt"));
  STRATA_NEEDS(test_data_path("tinyshakespeare.txt"));
  const auto t = load_tokenizer(path);
  const Json golden = read_golden("real.json").at(GetParam());
  expect_committed_texts(*t, golden, read_golden("golden.json").at("small_texts"));
  expect_outside_texts(*t, golden);
}

TEST_P(Real, DecodingGivesTheTextBack) {
  const auto path = testing::model_path(GetParam());
  STRATA_NEEDS(path);
  const auto t = load_tokenizer(path);
  std::string text = read_file(golden_path("tokenizers/corpus.txt"));
  // U+2581 is what the score-based models spell a space by: the one character they lose.
  for (size_t at; (at = text.find("▁")) != std::string::npos;) text.erase(at, 3);
  const std::vector<TokenId> ids = t->encode(text, kPlain);
  EXPECT_EQ(t->decode(ids), text);
  StreamDecoder stream(*t);
  std::string streamed;
  for (const TokenId id : ids) streamed += stream.push(id);
  EXPECT_EQ(streamed + stream.finish(), text);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Real,
                         ::testing::Values("smollm2-135m", "gemma3-270m", "qwen2.5-coder-0.5b"));

TEST(RealTokenizers, TheCaseFilesChain) {
  for (const char* name : {"common/chain.gguf", "common/chain-hf"}) {
    const auto path = testing::case_path(name);
    STRATA_NEEDS(path);
    const auto t = load_tokenizer(path);
    EXPECT_EQ(t->vocabulary_size(), 286) << name;
    EXPECT_EQ(t->encode("a b<s>").size(), 7u) << name;
    EXPECT_EQ(t->encode("▁"), (std::vector<TokenId>{1, 259})) << name;
    EXPECT_EQ(t->encode("<s>x", {.control = ControlText::parse}).size(), 2u) << name;
    EXPECT_EQ(t->decode(t->encode("a b\n\xF0\x9F\x98\x80")), "a b\n\xF0\x9F\x98\x80") << name;
    EXPECT_EQ(t->specials().end_of_generation, (std::vector<TokenId>{2})) << name;
  }
}

TEST(RealTokenizers, LongWordsTakeLinearTime) {
  for (const char* name : {"smollm2-135m", "gemma3-270m"}) {
    const auto path = testing::model_path(name);
    STRATA_NEEDS(path);
    const auto t = load_tokenizer(path);
    testing::expect_linear(*t, name);
    for (const testing::LongText& text : testing::kLongTexts) {
      const std::string content = text.make(100'000);
      EXPECT_EQ(t->decode(t->encode(content)), content) << name << ", " << text.name;
    }
  }
}

}  // namespace
}  // namespace strata
