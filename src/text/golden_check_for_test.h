#pragma once

// What the golden tests of tokenizers share: texts, goldens, and the comparison.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/sha256.h"
#include "support/test_data.h"
#include "text/tokenizer.h"

namespace strata::testing {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

// nlohmann's own parser: the goldens hold NUL and more keys than a request may.
inline Json read_golden(const char* name) {
  return Json::parse(read_file(golden_path("tokenizers") / name));
}

inline std::string long_word() {
  std::string word(1'000'000, ' ');
  uint32_t x = 12345;
  for (char& c : word) {
    x = (x * 1103515245u + 12345u) & 0x7FFFFFFFu;
    c = static_cast<char>('a' + (x >> 16) % 26);
  }
  return word;
}

inline std::string without_unk(std::string text) {
  for (size_t at = 0; (at = text.find("<unk>", at)) != std::string::npos;)
    text.replace(at, 5, "UNK");
  return text;
}

inline std::string digest(const std::vector<TokenId>& ids) {
  std::string bytes;
  for (const TokenId id : ids)
    for (int shift = 0; shift < 32; shift += 8)
      bytes += static_cast<char>(static_cast<uint32_t>(id) >> shift & 0xFF);
  return sha256_hex(bytes);
}

inline const EncodeOptions kPlain{.control = ControlText::as_text, .add_special = false};

// One text by its name in the goldens.
inline void expect_text(const Tokenizer& t, const Json& golden, const std::string& name,
                        const std::string& text) {
  SCOPED_TRACE(name);
  const std::vector<TokenId> ids = t.encode(text, kPlain);
  const Json& want = golden.at("texts").at(name);
  EXPECT_EQ(ids.size(), want.at("count").get<size_t>());
  EXPECT_EQ(digest(ids), want.at("sha256").get<std::string>());
}

inline void expect_committed_texts(const Tokenizer& t, const Json& golden,
                                   const Json& small_texts) {
  for (size_t i = 0; i < small_texts.size(); ++i) {
    const auto text = small_texts[i].get<std::string>();
    EXPECT_EQ(t.encode(text, kPlain), golden.at("small")[i].get<std::vector<TokenId>>())
        << "small text " << i << ": '" << text << "'";
  }
  expect_text(t, golden, "corpus", read_file(golden_path("tokenizers/corpus.txt")));
  expect_text(t, golden, "long_word", long_word());
}

inline void expect_outside_texts(const Tokenizer& t, const Json& golden) {
  expect_text(t, golden, "wikitext2", without_unk(read_file(test_data_path("wikitext2-test.txt"))));
  expect_text(t, golden, "shakespeare", read_file(test_data_path("tinyshakespeare.txt")));
}

}  // namespace strata::testing
