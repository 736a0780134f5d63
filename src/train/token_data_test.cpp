// From a text to the windows that are trained on, in memory and by way of a mapped file.
#include "train/token_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/sha256.h"
#include "model/test_models.h"
#include "support/error_message.h"
#include "text/bpe_trainer.h"
#include "text/tokenizer_json.h"
#include "train/character_tokenizer.h"
#include "train/token_file.h"

namespace strata {
namespace {

std::unique_ptr<Tokenizer> character_tokenizer(const std::string& text) {
  return tokenizer_from_json({"test", character_tokenizer_json(text), {}, {}, {}});
}

TEST(CharacterTokenizer, OneTokenACharacterInOrderOfCodePoints) {
  const std::string text = "b\na é🙂b";
  const auto tokenizer = character_tokenizer(text);
  EXPECT_EQ(tokenizer->vocabulary_size(), 7);  // \n, blank, a, b, e acute, smile, [UNK]
  const std::vector<int32_t> ids = tokenizer->encode(text, {ControlText::as_text, false});
  EXPECT_EQ(ids, (std::vector<int32_t>{3, 0, 2, 1, 4, 5, 3}));
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(message([] { character_tokenizer_json("ab\xff"); }),
            "characters: byte 2 of the text is no UTF-8");
}

TEST(TokenData, TheLastPartIsForValidationAndScoredWhole) {
  const std::string text = "abcdefghijklmnopqrstuvwxyzabcdefghijklmn";  // 40
  const auto tokenizer = character_tokenizer(text);
  const TokenData data = make_token_data(text, *tokenizer, 0.25, 4);
  EXPECT_EQ(data.train.size(), 30);
  EXPECT_EQ(data.validation.size(), 10);
  EXPECT_EQ(whole_windows(data.validation, 4), 3);
  TokenBatch batch;
  for (int i = 0; i < 3; ++i) add_whole_window(data.validation, 4, i, batch);
  ASSERT_EQ(batch.size(), 9);  // all but the first are targets, once
  for (int i = 0; i < 9; ++i) EXPECT_EQ(batch.targets()[i], data.validation[i + 1]) << i;
  EXPECT_EQ(batch.batch().sequences.back().rows, 1);
}

TEST(TokenData, WindowsDependOnSeedAndNumberAlone) {
  const std::vector<int32_t> tokens = [] {
    std::vector<int32_t> t(1000);
    for (size_t i = 0; i < t.size(); ++i) t[i] = static_cast<int32_t>(i);
    return t;
  }();
  TokenBatch a, b, c;
  draw_windows(tokens, 8, 5, 7, 3, a);
  draw_windows(tokens, 8, 5, 7, 4, b);
  draw_windows(tokens, 8, 5, 7, 3, c);
  const auto first = [](const TokenBatch& batch) {
    return std::vector<int32_t>(batch.batch().tokens.begin(), batch.batch().tokens.end());
  };
  EXPECT_EQ(first(a), first(c));
  EXPECT_NE(first(a), first(b));
  for (int i = 0; i < 40; ++i) EXPECT_EQ(a.targets()[i], first(a)[static_cast<size_t>(i)] + 1);
  // Both ends are drawn.
  int32_t least = 1000, most = 0;
  for (int i = 0; i < 3000; ++i) {
    draw_windows(tokens, 8, 1, 7, i, a);
    least = std::min(least, first(a)[0]);
    most = std::max(most, a.targets()[7]);
  }
  EXPECT_EQ(least, 0);
  EXPECT_EQ(most, 999);
}

TEST(TokenData, BadTextsAreNamed) {
  const auto tokenizer = character_tokenizer("abc");
  EXPECT_EQ(message([&] { make_token_data("abcabcabxab", *tokenizer, 0.1, 4); }),
            "train: the character 'x' at byte 8 is not in the tokenizer's vocabulary; use a "
            "tokenizer made from this text");
  EXPECT_EQ(message([&] { make_token_data("abcab", *tokenizer, 0.1, 4); }),
            "train: the training text has 4 tokens, wanted at least 5 (context 4); give more text "
            "or a smaller context");
}

std::vector<int32_t> tokens_of(const TokenSpan& span) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < span.size(); ++i) out.push_back(span[i]);
  return out;
}

// 9 MB of words and blanks with long and short runs of both, and characters of two to four bytes.
const std::string& long_text() {
  static const std::string text = [] {
    const char* words[] = {"the", "cat", "Sat", "on", "\u00e9t\u00e9", "\U0001f642", "12", "a.b,"};
    const char* gaps[] = {" ", "\n", "  ", "\n\n", " \n ", "\t"};
    std::string out;
    uint32_t state = 7;
    while (out.size() < 9'000'000) {
      state = state * 1664525u + 1013904223u;
      out += words[state >> 29];
      out += gaps[(state >> 16) % 6];
    }
    return out;
  }();
  return text;
}

void write(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(TrainingText, IsReadInPiecesOfWholeCharacters) {
  const testing::TemporaryFolder folder;
  // Files of a folder follow each other, in order of names; the border is in the middle of a word.
  write(folder.path() / "b.txt", std::string_view(long_text()).substr(5'000'002));
  write(folder.path() / "a.txt", std::string_view(long_text()).substr(0, 5'000'002));
  write(folder.path() / "c.md", "not this one");
  const TrainingText text(folder.path());
  EXPECT_EQ(text.bytes(), static_cast<int64_t>(long_text().size()));
  EXPECT_EQ(text.hash(), sha256_hex(long_text()));
  EXPECT_EQ(text.alphabet().back(), U'\U0001f642');
  EXPECT_TRUE(std::is_sorted(text.alphabet().begin(), text.alphabet().end()));
  EXPECT_EQ(character_tokenizer_json(text.alphabet()), character_tokenizer_json(long_text()));
  std::string all;
  size_t pieces = 0, longest = 0;
  text.read([&](std::string_view piece) {
    EXPECT_NE(static_cast<unsigned char>(piece.front()) & 0xc0u, 0x80u) << pieces;
    all += piece;
    ++pieces;
    longest = std::max(longest, piece.size());
  });
  EXPECT_EQ(all, long_text());
  EXPECT_GE(pieces, 2u);
  EXPECT_LT(longest, size_t{9} << 20);
}

TEST(TrainingText, BadFilesAreNamed) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(message([&] {
              TrainingText("no/such/file.txt");
            }).rfind("train: no/such/file.txt: cannot be read: ", 0),
            0u);
  const std::string path = (folder.path() / "x.txt").string();
  EXPECT_EQ(message([&] { TrainingText{folder.path()}; }),
            "train: " + folder.path().string() + ": there is no text in it");
  write(path, "");
  EXPECT_EQ(message([&] { TrainingText{path}; }), "train: " + path + ": there is no text in it");
  write(path, "abc\xffy");
  EXPECT_EQ(message([&] { TrainingText{path}; }),
            "train: " + path + ": byte 3 of the text is no UTF-8");
  // Far into the text, and cut off at its end.
  write(path, long_text() + "\xc3");
  EXPECT_EQ(
      message([&] { TrainingText{path}; }),
      "train: " + path + fmt::format(": byte {} of the text is no UTF-8", long_text().size()));
}

// The oracle is the whole text, tokenized at once.
TEST(TokenFile, HoldsTheTokensOfTheWholeText) {
  const testing::TemporaryFolder folder;
  write(folder.path() / "text.txt", long_text());
  const TrainingText text(folder.path() / "text.txt");
  BpeTrainerOptions bpe;
  bpe.vocabulary = 300;
  BpeTrainer trainer(bpe);
  trainer.add_text(std::string_view(long_text()).substr(0, 20'000));
  const std::string jsons[] = {character_tokenizer_json(text.alphabet()),
                               bpe_tokenizer_json(trainer.train(), {})};
  for (const std::string& json : jsons) {
    const auto tokenizer = tokenizer_from_json({"test", json, {}, {}, {}});
    const TokenData whole = make_token_data(long_text(), *tokenizer, 0.1, 64);
    const std::string key = token_file_key(text.hash(), json, 0.1);
    const std::filesystem::path path = folder.path() / "tokens.bin";
    double last = -1;
    const TokenData written = write_token_file(path, text, *tokenizer, 0.1, key, [&](double share) {
      EXPECT_GT(share, last);
      last = share;
    });
    EXPECT_GT(last, 0.3);
    EXPECT_TRUE(tokens_of(written.train) == tokens_of(whole.train));
    EXPECT_TRUE(tokens_of(written.validation) == tokens_of(whole.validation));
    EXPECT_EQ(std::filesystem::file_size(path),
              static_cast<uintmax_t>(2 * (whole.train.size() + whole.validation.size()) + 128));
    const auto again = open_token_file(path);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->key, key);
    EXPECT_TRUE(tokens_of(again->data.train) == tokens_of(whole.train));
    EXPECT_TRUE(tokens_of(again->data.validation) == tokens_of(whole.validation));
  }
}

TEST(TokenFile, DependsOnTextTokenizerAndShare) {
  const std::string key = token_file_key("text", "tokenizer", 0.1);
  EXPECT_EQ(key.size(), 64u);
  EXPECT_NE(key, token_file_key("texT", "tokenizer", 0.1));
  EXPECT_NE(key, token_file_key("text", "tokenizeR", 0.1));
  EXPECT_NE(key, token_file_key("text", "tokenizer", 0.2));
}

TEST(TokenFile, WhatIsNotWholeIsRefused) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "tokens.bin";
  EXPECT_FALSE(open_token_file(path).has_value());
  const std::string text = "abcabcabcabc";
  write(folder.path() / "text.txt", text);
  const auto tokenizer = character_tokenizer(text);
  write_token_file(path, TrainingText(folder.path() / "text.txt"), *tokenizer, 0.25,
                   sha256_hex(""));
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  ASSERT_EQ(whole.size(), 2 * 12 + 128u);
  for (const size_t cut : {size_t{0}, size_t{2}, size_t{24}, size_t{151}}) {
    write(path, std::string_view(whole).substr(cut == 2 || cut == 24 ? cut : 0,
                                               cut == 2 || cut == 24 ? whole.size() : cut));
    EXPECT_NE(message([&] { open_token_file(path); }).find("tokens.bin: "), std::string::npos)
        << cut;
  }
  // Damage while it is mapped is told.
  write(path, whole);
  const auto file = open_token_file(path);
  ASSERT_TRUE(file.has_value());
  std::filesystem::resize_file(path, 10);
  EXPECT_THROW(file->data.check_intact(), Error);
}

TEST(TokenFile, AnUnknownCharacterFarInIsNamedAndLeavesNoFile) {
  const testing::TemporaryFolder folder;
  write(folder.path() / "text.txt", long_text() + "#");
  const TrainingText text(folder.path() / "text.txt");
  const auto tokenizer = character_tokenizer(long_text());
  const std::filesystem::path path = folder.path() / "tokens.bin";
  EXPECT_EQ(message([&] { write_token_file(path, text, *tokenizer, 0.1, sha256_hex("")); }),
            fmt::format("train: the character '#' at byte {} is not in the tokenizer's vocabulary; "
                        "use a tokenizer made from this text",
                        long_text().size()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace strata
