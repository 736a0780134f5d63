// Ids of real and trained vocabularies equal those of `tokenizers` and `sentencepiece`
// (tools/oracle/tokenizers_golden.py), on whole corpora.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/golden_check_for_test.h"
#include "text/tokenizer_json.h"
#include "text/vocabulary.h"

namespace strata {
namespace {

using testing::expect_committed_texts;
using testing::expect_outside_texts;
using testing::golden_path;
using testing::read_file;
using testing::read_golden;
using testing::test_data_path;

// Lines "kind score json-string".
VocabularyData read_pieces(const char* name) {
  VocabularyData data;
  data.source = name;
  std::istringstream lines(read_file(golden_path("tokenizers") / name));
  int kind = 0;
  float score = 0;
  std::string piece;
  while (lines >> kind >> score && std::getline(lines, piece)) {
    data.token_types.push_back(kind);
    data.scores.push_back(score);
    data.pieces->add(Json::parse(piece).get<std::string>());
  }
  return data;
}

std::unique_ptr<Tokenizer> score_bpe() {
  VocabularyData data = read_pieces("score_bpe.txt");
  data.model = "llama";
  data.special_ids = {{"unknown_token_id", 0}, {"bos_token_id", 1}, {"eos_token_id", 2}};
  return tokenizer_from_vocabulary(std::move(data));
}

std::unique_ptr<Tokenizer> unigram() {
  VocabularyData data = read_pieces("unigram.txt");
  data.model = "t5";
  const std::string map = read_file(golden_path("tokenizers/charsmap.bin"));
  data.precompiled_charsmap.assign(map.begin(), map.end());
  data.special_ids = {{"padding_token_id", 0}, {"eos_token_id", 1}, {"unknown_token_id", 2}};
  data.add_space_prefix = true;
  data.remove_extra_whitespaces = true;
  return tokenizer_from_vocabulary(std::move(data));
}

std::string base64(const std::string& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t v = 0;
    for (size_t k = 0; k < 3; ++k)
      v = v << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? kDigits[v >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// What transformers writes for the same model.
std::unique_ptr<Tokenizer> unigram_json() {
  const VocabularyData data = read_pieces("unigram.txt");
  Json vocab = Json::array();
  for (TokenId id = 0; id < data.pieces->size(); ++id)
    vocab.push_back({(*data.pieces)[id], data.scores[static_cast<size_t>(id)]});
  const Json root = {
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Precompiled"},
           {"precompiled_charsmap", base64(read_file(golden_path("tokenizers/charsmap.bin")))}},
          {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}}}}},
      {"pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}}},
      {"model", {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", std::move(vocab)}}}};
  TokenizerFiles files;
  files.source = "unigram_json";
  files.tokenizer = root.dump();
  return tokenizer_from_json(files);
}

std::unique_ptr<Tokenizer> from_golden_json(const char* name) {
  TokenizerFiles files;
  files.source = name;
  files.tokenizer = read_file(golden_path("tokenizers") / name);
  return tokenizer_from_json(files);
}

std::unique_ptr<Tokenizer> trained(const std::string& name) {
  if (name == "score_bpe") return score_bpe();
  if (name == "unigram") return unigram();
  if (name == "unigram_json") return unigram_json();
  return from_golden_json((name + ".json").c_str());
}

class Trained : public ::testing::TestWithParam<const char*> {};

TEST_P(Trained, CommittedTexts) {
  const Json golden = read_golden("golden.json");
  expect_committed_texts(*trained(GetParam()), golden.at(GetParam()), golden.at("small_texts"));
}

TEST_P(Trained, OutsideTexts) {
  STRATA_NEEDS(test_data_path("wikitext2-test.txt"));
  STRATA_NEEDS(test_data_path("tinyshakespeare.txt"));
  expect_outside_texts(*trained(GetParam()), read_golden("golden.json").at(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Trained,
                         ::testing::Values("byte_level", "word_level", "score_bpe", "unigram",
                                           "unigram_json"));

}  // namespace
}  // namespace strata
