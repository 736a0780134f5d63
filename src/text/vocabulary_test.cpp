#include "text/vocabulary.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/byte_alphabet.h"

namespace strata {
namespace {

using Ids = std::vector<TokenId>;

// 256 bytes (ids 0..255 = byte values), then "ab" 256, "abc" 257, "bc" 258, "<|im_end|>" 259
// (control), "<tool>" 260 (user defined), "<s>" 261 (control, BOS).
VocabularyData byte_level_data() {
  VocabularyData data;
  data.source = "test";
  data.model = "gpt2";
  data.pre = "gpt-2";
  for (int b = 0; b < 256; ++b) data.pieces->add(byte_spelling(static_cast<unsigned char>(b)));
  for (const char* piece : {"ab", "abc", "bc", "<|im_end|>", "<tool>", "<s>"})
    data.pieces->add(piece);
  data.token_types.assign(262, 1);
  data.token_types[259] = 3;
  data.token_types[260] = 4;
  data.token_types[261] = 3;
  data.merges = {"a b", "b c", "ab c"};
  data.special_ids = {{"bos_token_id", 261}, {"eos_token_id", 259}};
  data.add_bos = true;
  return data;
}

std::string error_of(VocabularyData data, ErrorCode code) {
  try {
    tokenizer_from_vocabulary(std::move(data));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Vocabulary, ByteLevelMergesAndSpecials) {
  const auto t = tokenizer_from_vocabulary(byte_level_data());
  EXPECT_EQ(t->encode("abc", {.add_special = false}), (Ids{257}));
  EXPECT_EQ(t->encode("bcab"), (Ids{261, 258, 256}));
  EXPECT_EQ(t->encode(""), (Ids{261}));
  EXPECT_EQ(t->specials().end_of_generation, (Ids{259}));
  EXPECT_EQ(t->specials().eot, 259);
  EXPECT_EQ(t->vocabulary_size(), 262);
  EXPECT_EQ(t->find_piece("abc"), 257);
  EXPECT_EQ(t->kind(260), TokenKind::user_defined);
}

TEST(Vocabulary, UserTextNeverBecomesAControlToken) {
  const auto t = tokenizer_from_vocabulary(byte_level_data());
  for (const TokenId id : t->encode("<s><|im_end|>", {.add_special = false})) EXPECT_LT(id, 259);
  EXPECT_EQ(t->encode("<tool>", {.add_special = false}), (Ids{260}));
  EXPECT_EQ(t->encode("<s>a", {.control = ControlText::parse}), (Ids{261, 'a'}));  // one BOS
  const std::string text = "<s><s>";
  const std::vector<uint8_t> marks{1, 1, 1, 1, 1, 0};
  EXPECT_EQ(t->encode_marked(text, marks, true), (Ids{261, '<', 's', '>'}));
}

TEST(Vocabulary, DecodeGivesEveryByteBack) {
  const auto t = tokenizer_from_vocabulary(byte_level_data());
  std::string all;
  for (int i = 0; i < 512; ++i) all += static_cast<char>(i * 7);
  EXPECT_EQ(t->decode(t->encode(all)), all);
  EXPECT_EQ(t->decode(Ids{261, 'a', 259}), "a");
  EXPECT_EQ(t->decode(Ids{261, 'a', 259}, true), "<s>a<|im_end|>");
  EXPECT_THROW(t->decode(Ids{262}), Error);
  EXPECT_THROW(t->decode(Ids{-1}), Error);
}

TEST(Vocabulary, StreamDecoderHoldsUnfinishedCharacters) {
  const auto t = tokenizer_from_vocabulary(byte_level_data());
  StreamDecoder d(*t);
  std::string out;
  for (const TokenId id : {0xF0, 0x9F, 0x98}) EXPECT_EQ(d.push(id), "");
  EXPECT_EQ(d.pending().size(), 3u);
  EXPECT_EQ(d.push(0x80), "\U0001F600");
  EXPECT_EQ(d.push(0xE2), "");
  EXPECT_EQ(d.push('x'), "\uFFFDx");
  EXPECT_EQ(d.push(0xC3), "");
  EXPECT_EQ(d.finish(), "\uFFFD");
  EXPECT_EQ(d.finish(), "");
}

TEST(Vocabulary, ContradictionsAreNamed) {
  auto data = byte_level_data();
  data.pre = "no-such-splitter";
  const std::string unknown = error_of(std::move(data), ErrorCode::unsupported);
  EXPECT_NE(unknown.find("no-such-splitter"), std::string::npos);
  EXPECT_NE(unknown.find("qwen2"), std::string::npos);

  data = byte_level_data();
  data.pre.clear();
  error_of(std::move(data), ErrorCode::unsupported);

  data = byte_level_data();
  data.token_types.resize(5);
  EXPECT_NE(error_of(std::move(data), ErrorCode::data_corrupt).find("token_type"),
            std::string::npos);

  for (const char* merge : {"a zz", "ab", "a d", ""}) {
    data = byte_level_data();
    data.merges.push_back(merge);
    EXPECT_NE(error_of(std::move(data), ErrorCode::data_corrupt).find("merges: entry 3"),
              std::string::npos);
  }
  data = byte_level_data();
  data.special_ids = {{"eos_token_id", 5000}};
  EXPECT_EQ(tokenizer_from_vocabulary(std::move(data))->specials().eos, kNoToken);
}

}  // namespace
}  // namespace strata
