// Merges by hand; against the `tokenizers` package: tests/e2e/test_tokenizer_train.py.
#include "text/bpe_trainer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/tokenizer_json.h"

namespace strata {
namespace {

std::vector<std::string> merges_of(BpeTrainer& trainer) {
  const BpeTrainer::Result r = trainer.train();
  std::vector<std::string> merges;
  for (const auto& [a, b] : r.merges)
    merges.push_back(r.pieces[static_cast<size_t>(a)] + "+" + r.pieces[static_cast<size_t>(b)]);
  return merges;
}

TEST(BpeTrainer, MergesTheMostFrequentPairOfEqualOnesTheLowerIds) {
  BpeTrainer trainer({.vocabulary = 260});
  trainer.add_word("hug", 10);
  trainer.add_word("pug", 5);
  trainer.add_word("pun", 12);
  trainer.add_word("bun", 4);
  trainer.add_word("hugs", 5);
  // ug 20, un 16, then hug 15 and pun 12 ahead of pug 5.
  EXPECT_EQ(merges_of(trainer), (std::vector<std::string>{"u+g", "u+n", "h+ug", "p+un"}));
  BpeTrainer ties({.vocabulary = 258});
  ties.add_word("cd", 1);
  ties.add_word("ab", 1);
  EXPECT_EQ(merges_of(ties), (std::vector<std::string>{"a+b", "c+d"}));
}

TEST(BpeTrainer, OverlappingPairsAndWordsThatEnd) {
  BpeTrainer trainer({.vocabulary = 300});
  trainer.add_word("aaaa", 1);
  EXPECT_EQ(merges_of(trainer).front(), "a+a");
  BpeTrainer few({.vocabulary = 1000, .least_count = 2});
  few.add_text("one two one\n");
  // " two" stands alone, and the line's first "one" is not " one": only their letters o+n, on+e
  // are there twice.
  EXPECT_EQ(merges_of(few), (std::vector<std::string>{"n+e", "o+ne"}));
}

TEST(BpeTrainer, CountsGoBeyond32Bits) {
  BpeTrainer trainer({.vocabulary = 257});
  trainer.add_word("ab", (int64_t{1} << 32) + 1);
  trainer.add_word("cd", int64_t{1} << 31);
  EXPECT_EQ(merges_of(trainer), (std::vector<std::string>{"a+b"}));
}

TEST(BpeTrainer, ItsTokenizerReadsAndWritesAnyText) {
  const std::vector<std::string> specials = {"<|end|>"};
  BpeTrainer trainer({.vocabulary = 300, .specials = specials});
  std::string text;
  for (int i = 0; i < 50; ++i) text += "The cat \"sat\"\tdown.\nIt slept, \xF0\x9F\x98\xBA!\n";
  trainer.add_text(text);
  const BpeTrainer::Result result = trainer.train();
  const auto tokenizer =
      tokenizer_from_json({"test", bpe_tokenizer_json(result, specials), {}, {}, {}});
  // All the merges this text has; the `tokenizers` package makes as many of it.
  EXPECT_EQ(tokenizer->vocabulary_size(), 278);
  const std::string any = "the <|end|> \xFF\n\n\"cats\" down";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(any)), any);
  EXPECT_EQ(tokenizer->encode("<|end|>", {ControlText::parse, false}), (std::vector<TokenId>{0}));
  EXPECT_LT(tokenizer->encode(text).size(), text.size() / 2);
}

TEST(BpeTrainer, ASmallVocabularyIsRefused) {
  EXPECT_THROW(BpeTrainer({.vocabulary = 256, .specials = {"a"}}), Error);
}

}  // namespace
}  // namespace strata
