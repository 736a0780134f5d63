#include "text/tokenizer_json.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "support/test_data.h"
#include "text/byte_alphabet.h"
#include "text/json_components.h"

namespace strata {
namespace {

using Ids = std::vector<TokenId>;

Json read_components() {
  std::ifstream in(testing::golden_path("tokenizers/components.json"), std::ios::binary);
  return Json::parse(in);
}

// Each component alone against the `tokenizers` package (tools/oracle/tokenizers_golden.py).
TEST(JsonComponents, Normalizers) {
  const Json components = read_components();
  for (const Json& entry : components.at("normalizer")) {
    simdjson::dom::parser parser;
    const std::string spec = entry.at("spec").dump();
    NormalizerList list;
    add_json_normalizers({parser.parse(spec), "normalizer"}, list);
    for (const Json& c : entry.at("cases")) {
      auto text = c[0].get<std::string>();
      for (const auto& n : list) n->apply(text);
      EXPECT_EQ(text, c[1].get<std::string>()) << spec << " on " << c[0];
    }
  }
}

TEST(JsonComponents, PreTokenizers) {
  const Json components = read_components();
  for (const Json& entry : components.at("pre_tokenizer")) {
    simdjson::dom::parser parser;
    const std::string spec = entry.at("spec").dump();
    const JsonPreTokenizers pre = json_pre_tokenizers({parser.parse(spec), "pre_tokenizer"});
    for (const Json& c : entry.at("cases")) {
      const auto text = c[0].get<std::string>();
      WordList list;
      list.words.push_back(text);
      list.at_text_start = true;
      for (const auto& step : pre.list) step->apply(list);
      std::vector<std::string> words;
      for (const std::string_view word : list.words) {
        words.emplace_back();
        if (pre.byte_level)
          append_byte_spelling(words.back(), word);
        else
          words.back() = word;
      }
      EXPECT_EQ(words, c[1].get<std::vector<std::string>>()) << spec << " on " << c[0];
    }
  }
}

TEST(JsonComponents, Decoders) {
  const Json components = read_components();
  for (const Json& entry : components.at("decoder")) {
    simdjson::dom::parser parser;
    const std::string spec = entry.at("spec").dump();
    const JsonDecoder decoder = json_decoder({parser.parse(spec), "decoder"});
    for (const Json& c : entry.at("cases")) {
      std::string text;
      bool at_start = true;
      for (const Json& piece : c[0]) {
        auto bytes = piece.get<std::string>();
        for (const auto& step : decoder.steps) step->apply(bytes, at_start);
        at_start = false;
        text += bytes;
      }
      EXPECT_EQ(text, c[1].get<std::string>()) << spec;
    }
  }
}

// A WordLevel tokenizer to hang options on: a 0, b 1, [UNK] 2, </s> 3 (special), <s> 4 (special).
Json small_tokenizer() {
  return Json::parse(R"({"added_tokens":[
      {"id":3,"content":"</s>","special":true,"normalized":false},
      {"id":4,"content":"<s>","special":true,"normalized":false}],
    "normalizer":null,"pre_tokenizer":{"type":"WhitespaceSplit"},"decoder":null,
    "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},
      {"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"id":"<s>","ids":[4]}}},
    "model":{"type":"WordLevel","unk_token":"[UNK]",
      "vocab":{"a":0,"b":1,"[UNK]":2,"</s>":3,"<s>":4}}})");
}

std::unique_ptr<Tokenizer> build(const Json& root, const std::string& config = "") {
  TokenizerFiles files;
  files.source = "tokenizer.json";
  files.tokenizer = root.dump();
  files.config = config;
  return tokenizer_from_json(files);
}

std::string error_of(const Json& root, ErrorCode code) {
  try {
    build(root);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error for " << root;
  return {};
}

TEST(TokenizerJson, TemplateAddsTheBeginningOnce) {
  const auto t = build(small_tokenizer(), R"({"eos_token":{"content":"</s>"}})");
  EXPECT_EQ(t->encode("a b c"), (Ids{4, 0, 1, 2}));
  EXPECT_EQ(t->encode("<s>"), (Ids{4, 2}));  // text, not the control token
  EXPECT_EQ(t->encode("<s> a</s>", {.control = ControlText::parse}), (Ids{4, 0, 3}));
  EXPECT_EQ(t->specials().eos, 3);
  EXPECT_EQ(t->specials().end_of_generation, (Ids{3}));
  EXPECT_TRUE(t->specials().add_bos);
  EXPECT_FALSE(t->specials().add_eos);
}

TEST(TokenizerJson, AddedTokenRules) {
  Json root = small_tokenizer();
  root["normalizer"] = {{"type", "Lowercase"}};
  root["added_tokens"].push_back({{"id", 5}, {"content", "word"}, {"single_word", true}});
  root["added_tokens"].push_back(
      {{"id", 6}, {"content", "<l>"}, {"lstrip", true}, {"rstrip", true}, {"normalized", false}});
  root["added_tokens"].push_back({{"id", 7}, {"content", "NORM"}, {"normalized", true}});
  const auto t = build(root);
  const auto ids = [&](std::string_view text) { return t->encode(text, {.add_special = false}); };
  EXPECT_EQ(ids("a word b"), (Ids{0, 5, 1}));
  EXPECT_EQ(ids("swords"), (Ids{2}));
  EXPECT_EQ(ids("a  <l> \n b"), (Ids{0, 6, 1}));
  EXPECT_EQ(ids("a norm NORM A"), (Ids{0, 7, 7, 0}));  // found in the lower-cased text
}

TEST(TokenizerJson, UnknownComponentsAreNamed) {
  for (const char* key : {"normalizer", "pre_tokenizer", "decoder", "post_processor"}) {
    Json root = small_tokenizer();
    root[key] = {{"type", "Frobnicate"}};
    const std::string message = error_of(root, ErrorCode::unsupported);
    EXPECT_NE(message.find("Frobnicate"), std::string::npos) << message;
    EXPECT_NE(message.find(key), std::string::npos) << message;
  }
  Json root = small_tokenizer();
  root["model"]["type"] = "Frobnicate";
  EXPECT_NE(error_of(root, ErrorCode::unsupported).find("Frobnicate"), std::string::npos);
}

TEST(TokenizerJson, BrokenFilesAreRefused) {
  Json root = small_tokenizer();
  root["model"]["vocab"]["b"] = 2000000000;
  error_of(root, ErrorCode::data_corrupt);
  root["model"]["vocab"]["b"] = 0;  // two pieces, one id
  error_of(root, ErrorCode::data_corrupt);
  root["model"]["vocab"]["b"] = -1;
  error_of(root, ErrorCode::data_corrupt);
  root = small_tokenizer();
  root["added_tokens"][0]["id"] = 1;
  error_of(root, ErrorCode::data_corrupt);
  root = small_tokenizer();
  root["post_processor"]["special_tokens"]["<s>"]["ids"][0] = 99;
  error_of(root, ErrorCode::data_corrupt);
  root = small_tokenizer();
  root["model"]["unk_token"] = "nowhere";
  error_of(root, ErrorCode::data_corrupt);
  root = small_tokenizer();
  root.erase("model");
  error_of(root, ErrorCode::data_corrupt);
  root = small_tokenizer();
  root["model"] = {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", {"a b"}}};
  error_of(root, ErrorCode::data_corrupt);
  TokenizerFiles files;
  files.source = "t";
  files.tokenizer = "{\"model\":";
  EXPECT_THROW(tokenizer_from_json(files), Error);
  EXPECT_THROW(tokenizer_from_folder("/nonexistent"), Error);
}

TEST(TokenizerJson, RegularExpressionsThatPcreRefusesAreNamed) {
  Json root = small_tokenizer();
  root["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"Regex", "(unclosed"}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  EXPECT_NE(error_of(root, ErrorCode::unsupported).find("(unclosed"), std::string::npos);
}

}  // namespace
}  // namespace strata
