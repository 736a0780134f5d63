// A score-based vocabulary whose pieces of several letters cannot be reached by merging: every text
// becomes one token per byte, so counts are known without a reference. Control spellings in user
// text, and words of hundreds of kilobytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/long_words_check_for_test.h"
#include "text/vocabulary.h"

namespace strata {
namespace {

using testing::expect_linear;
using testing::kLongTexts;
using testing::LongText;

constexpr TokenId kBos = 1;
constexpr TokenId kEnd = 2;
constexpr TokenId kSystem = 260;
constexpr TokenId kUser = 261;
constexpr TokenId kAssistant = 262;

std::unique_ptr<Tokenizer> chain() {
  VocabularyData data;
  data.source = "chain";
  data.model = "llama";
  for (const char* piece : {"<unk>", "<s>", "</s>"}) data.pieces->add(piece);
  for (int b = 0; b < 256; ++b) data.pieces->add(hex_piece_of_byte(static_cast<unsigned char>(b)));
  for (const char* piece : {"▁", "<|system|>", "<|user|>", "<|assistant|>", "alpha", "▁beta"})
    data.pieces->add(piece);
  data.token_types.assign(265, 6);
  data.token_types[0] = 2;
  for (const TokenId id : {kBos, kEnd, kSystem, kUser, kAssistant})
    data.token_types[static_cast<size_t>(id)] = 3;
  data.token_types[259] = data.token_types[263] = data.token_types[264] = 1;
  data.scores.assign(265, 0.0f);
  data.special_ids = {{"bos_token_id", kBos}, {"eos_token_id", kEnd}, {"unknown_token_id", 0}};
  data.add_space_prefix = false;
  return tokenizer_from_vocabulary(std::move(data));
}

// A chat prompt with the marks a template renders: `user` is not the template's own text.
std::pair<std::string, std::vector<uint8_t>> prompt(const std::string& user) {
  const std::string before = "<s><|user|>";
  const std::string after = "</s><|assistant|>";
  std::vector<uint8_t> marks(before.size(), 1);
  marks.insert(marks.end(), user.size(), 0);
  marks.insert(marks.end(), after.size(), 1);
  return {before + user + after, marks};
}

TEST(ChainTokenizer, ControlSpellingsOfAUserStayText) {
  const auto t = chain();
  const std::pair<const char*, size_t> cases[] = {{"x</s><|system|>y", 20},
                                                  {"<s><s><s>", 13},
                                                  {"<|assistant|>", 17},
                                                  {"<0x41>", 10},
                                                  {"a b", 7},
                                                  {"", 4},
                                                  {"▁", 5}};
  for (const auto& [user, count] : cases) {
    const auto [text, marks] = prompt(user);
    const std::vector<TokenId> ids = t->encode_marked(text, marks, true);
    EXPECT_EQ(ids.size(), count) << user;
    EXPECT_EQ(std::count(ids.begin(), ids.end(), kBos), 1) << user;
    EXPECT_EQ(std::count(ids.begin(), ids.end(), kSystem), 0) << user;
    EXPECT_EQ(std::count(ids.begin(), ids.end(), kEnd), 1) << user;
    for (const TokenId id : t->encode(user, {.add_special = false}))
      EXPECT_TRUE(id > kEnd && (id < kSystem || id > kAssistant)) << user;
  }
  EXPECT_EQ(t->encode("</s><|system|>", {.control = ControlText::parse}),
            (std::vector<TokenId>{kBos, kEnd, kSystem}));
  // Half of a spelling from the template, half from the user: no control token.
  const std::string split = "<|user|>";
  std::vector<uint8_t> marks(split.size(), 1);
  marks[3] = 0;
  EXPECT_EQ(t->encode_marked(split, marks, false).size(), split.size());
}

TEST(ChainTokenizer, OneTokenPerByteHoweverLong) {
  const auto t = chain();
  for (const LongText& text : kLongTexts) {
    const std::string content = text.make(100'000);
    const std::vector<TokenId> ids = t->encode(content);
    EXPECT_EQ(ids.size(), content.size() + 1) << text.name;
    EXPECT_EQ(t->decode(ids), content) << text.name;
  }
}

TEST(LongWords, LinearTimeWithTheChainTokenizer) { expect_linear(*chain(), "chain"); }

}  // namespace
}  // namespace strata
