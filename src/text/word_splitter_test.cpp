#include "text/word_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace strata {
namespace {

using Words = std::vector<std::string>;

Words split(WordPattern pattern, std::string_view text) {
  const WordLength length = word_length_function(pattern);
  Words words;
  while (!text.empty()) {
    const size_t n = length(text.data(), text.data() + text.size());
    words.emplace_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return words;
}

// Expected words: read off the regular expressions in the header by hand.
TEST(WordSplitter, Gpt2) {
  EXPECT_EQ(split(WordPattern::gpt2, "I'll pay  $12,000 don't\n\n"),
            (Words{"I", "'ll", " pay", " ", " $", "12", ",", "000", " don", "'t", "\n\n"}));
  EXPECT_EQ(split(WordPattern::gpt2, "a\n\n b \tc"), (Words{"a", "\n\n", " b", " ", "\t", "c"}));
  EXPECT_EQ(split(WordPattern::gpt2, "DON'T"), (Words{"DON", "'", "T"}));
  EXPECT_EQ(split(WordPattern::gpt2, " 123 ½x"), (Words{" 123", " ½", "x"}));
}

TEST(WordSplitter, SmollmCutsDigitsFirst) {
  EXPECT_EQ(split(WordPattern::smollm, "in 1999  7x"),
            (Words{"in", " ", "1", "9", "9", "9", "  ", "7", "x"}));
}

TEST(WordSplitter, Llama3) {
  EXPECT_EQ(split(WordPattern::llama3, "He'S 12345 _x\n\n  y"),
            (Words{"He", "'S", " ", "123", "45", " _", "x", "\n\n", " ", " y"}));
  EXPECT_EQ(split(WordPattern::llama3, "a !?\n\nb\tc"), (Words{"a", " !?\n\n", "b", "\tc"}));
  EXPECT_EQ(split(WordPattern::llama3, "'ſ"), (Words{"'ſ"}));  // folds to 's
}

TEST(WordSplitter, Qwen2TakesDigitsAlone) {
  EXPECT_EQ(split(WordPattern::qwen2, "x 42"), (Words{"x", " ", "4", "2"}));
}

TEST(WordSplitter, MongolianVowelSeparatorIsNoSpace) {
  EXPECT_EQ(split(WordPattern::gpt2, "a \u180E"), (Words{"a", " \u180E"}));
}

TEST(WordSplitter, IllFormedBytesAreSymbolsOfTheirOwn) {
  EXPECT_EQ(split(WordPattern::gpt2, "a\x80\xE2\x82 b"), (Words{"a", "\x80\xE2\x82", " b"}));
}

}  // namespace
}  // namespace strata
