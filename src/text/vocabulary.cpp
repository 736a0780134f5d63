#include "text/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "text/bpe_model.h"
#include "text/end_tokens.h"
#include "text/pipeline_tokenizer.h"
#include "text/score_bpe_model.h"
#include "text/unicode_normalizers.h"
#include "text/unigram_model.h"

namespace strata {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

// tokenizer.ggml.pre -> how to cut words. Names in one row are files whose tokenizers llama.cpp
// treats alike.
struct PreTokenizerName {
  std::string_view name;
  WordPattern pattern;
  bool ignore_merges;
  bool add_bos;  // where the file does not say
};
constexpr PreTokenizerName kPreTokenizers[] = {
    {"gpt-2", WordPattern::gpt2, false, false},
    {"phi-2", WordPattern::gpt2, false, false},
    {"gigachat", WordPattern::gpt2, false, false},
    {"mpt", WordPattern::gpt2, false, false},
    {"olmo", WordPattern::gpt2, false, false},
    {"jais", WordPattern::gpt2, false, false},
    {"trillion", WordPattern::gpt2, false, false},
    {"granite-docling", WordPattern::gpt2, false, false},
    {"exaone4", WordPattern::gpt2, false, false},
    {"smollm", WordPattern::smollm, false, false},
    {"starcoder", WordPattern::smollm, false, false},
    {"refact", WordPattern::smollm, false, false},
    {"command-r", WordPattern::smollm, false, false},
    {"codeshell", WordPattern::smollm, false, false},
    {"exaone", WordPattern::smollm, false, false},
    {"minerva-7b", WordPattern::smollm, false, false},
    {"llama-bpe", WordPattern::llama3, true, true},
    {"llama3", WordPattern::llama3, true, true},
    {"llama-v3", WordPattern::llama3, true, true},
    {"falcon3", WordPattern::llama3, true, true},
    {"falcon-h1", WordPattern::llama3, true, true},
    {"pixtral", WordPattern::llama3, true, true},
    {"midm-2.0", WordPattern::llama3, true, true},
    {"lfm2", WordPattern::llama3, true, true},
    {"dbrx", WordPattern::llama3, false, false},
    {"smaug-bpe", WordPattern::llama3, false, false},
    {"qwen2", WordPattern::qwen2, false, false},
    {"deepseek-r1-qwen", WordPattern::qwen2, false, false},
    {"stablelm2", WordPattern::qwen2, false, false},
    {"hunyuan", WordPattern::qwen2, false, false},
    {"megrez", WordPattern::qwen2, false, false},
    {"solar-open", WordPattern::qwen2, false, false},
};

std::string known_pre_tokenizers() {
  std::string names;
  for (const PreTokenizerName& p : kPreTokenizers) {
    if (!names.empty()) names += ", ";
    names += p.name;
  }
  return names;
}

const PreTokenizerName& find_pre_tokenizer(const VocabularyData& data) {
  for (const PreTokenizerName& p : kPreTokenizers)
    if (p.name == data.pre) return p;
  fail(ErrorCode::unsupported, "{}: tokenizer.ggml.pre: {}; known: {}", data.source,
       data.pre.empty() ? "not given, and guessing would change the ids"
                        : fmt::format("unknown pre-tokenizer '{}'", data.pre),
       known_pre_tokenizers());
}

void check_sizes(const VocabularyData& data) {
  const auto tokens = static_cast<size_t>(data.pieces->size());
  if (tokens == 0)
    fail(ErrorCode::data_corrupt, "{}: tokenizer.ggml.tokens: no tokens", data.source);
  const auto check = [&](std::string_view key, size_t got) {
    if (got != 0 && got != tokens)
      fail(ErrorCode::data_corrupt, "{}: tokenizer.ggml.{}: {} entries for {} tokens", data.source,
           key, got, tokens);
  };
  check("scores", data.scores.size());
  check("token_type", data.token_types.size());
  for (size_t i = 0; i < data.scores.size(); ++i)
    if (std::isnan(data.scores[i]))
      fail(ErrorCode::data_corrupt, "{}: tokenizer.ggml.scores: entry {} is not a number",
           data.source, i);
}

std::vector<TokenKind> kinds_of(const VocabularyData& data) {
  std::vector<TokenKind> kinds(static_cast<size_t>(data.pieces->size()), TokenKind::normal);
  for (size_t i = 0; i < data.token_types.size(); ++i) {
    switch (data.token_types[i]) {
      case 0:  // "undefined": what old converters wrote for plain pieces
      case 1:
        break;
      case 2:
        kinds[i] = TokenKind::unknown;
        break;
      case 3:
        kinds[i] = TokenKind::control;
        break;
      case 4:
        kinds[i] = TokenKind::user_defined;
        break;
      case 5:
        kinds[i] = TokenKind::unused;
        break;
      case 6:
        kinds[i] = TokenKind::byte;
        break;
      default:
        fail(ErrorCode::data_corrupt,
             "{}: tokenizer.ggml.token_type: entry {} is {}, wanted 0 to 6", data.source, i,
             data.token_types[i]);
    }
  }
  return kinds;
}

std::vector<bool> text_pieces(const std::vector<TokenKind>& kinds) {
  std::vector<bool> is_text(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i)
    is_text[i] = kinds[i] == TokenKind::normal || kinds[i] == TokenKind::user_defined ||
                 kinds[i] == TokenKind::unused;
  return is_text;
}

// The id under `key`, kNoToken when the file has none or one outside the vocabulary.
TokenId special_id(const VocabularyData& data, std::string_view key) {
  for (const auto& [name, id] : data.special_ids) {
    if (name != key) continue;
    if (id >= 0 && id < data.pieces->size()) return static_cast<TokenId>(id);
    log_warning("{}: tokenizer.ggml.{} is {}, outside the vocabulary of {}; ignored", data.source,
                key, id, data.pieces->size());
  }
  return kNoToken;
}

Tokenizer::Specials specials_of(const VocabularyData& data) {
  Tokenizer::Specials s;
  const auto either = [&](std::string_view key, std::string_view old_key) {
    const TokenId id = special_id(data, key);
    return id != kNoToken ? id : special_id(data, old_key);
  };
  s.bos = special_id(data, "bos_token_id");
  s.eos = special_id(data, "eos_token_id");
  s.eot = special_id(data, "eot_token_id");
  s.unknown = special_id(data, "unknown_token_id");
  s.pad = special_id(data, "padding_token_id");
  s.fim_prefix = either("fim_pre_token_id", "prefix_token_id");
  s.fim_suffix = either("fim_suf_token_id", "suffix_token_id");
  s.fim_middle = either("fim_mid_token_id", "middle_token_id");
  for (const std::string_view key :
       {"eom_token_id", "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"})
    if (const TokenId id = special_id(data, key); id != kNoToken) s.end_of_generation.push_back(id);
  return s;
}

MergeTable merges_of(const VocabularyData& data, const std::vector<bool>& is_text) {
  MergeTable table;
  table.reserve(data.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view line = data.merges[rank];
    // A piece can be a space only in the first place.
    const size_t space = line.find(' ', 1);
    const auto corrupt = [&](std::string_view problem) {
      fail(ErrorCode::data_corrupt, "{}: tokenizer.ggml.merges: entry {} '{}': {}", data.source,
           rank, line, problem);
    };
    if (space == std::string_view::npos) corrupt("no space between two pieces");
    const TokenId left = data.pieces->find(line.substr(0, space));
    const TokenId right = data.pieces->find(line.substr(space + 1));
    if (left == kNoToken || right == kNoToken)
      corrupt("names a piece that is not in the vocabulary");
    joined.assign(line.substr(0, space));
    joined += line.substr(space + 1);
    const TokenId merged = data.pieces->find(joined);
    if (merged == kNoToken) corrupt("the joined piece is not in the vocabulary");
    if (!is_text[static_cast<size_t>(merged)]) continue;  // text never becomes a control token
    table.add(left, right, {static_cast<uint32_t>(rank), merged},
              MergeTable::Duplicate::keep_first);
  }
  return table;
}

AddedTokens added_tokens_of(const VocabularyData& data, const std::vector<TokenKind>& kinds) {
  std::vector<AddedToken> tokens;
  for (TokenId id = 0; id < data.pieces->size(); ++id) {
    const TokenKind kind = kinds[static_cast<size_t>(id)];
    if (kind != TokenKind::control && kind != TokenKind::unknown && kind != TokenKind::user_defined)
      continue;
    AddedToken token;
    token.id = id;
    token.content = (*data.pieces)[id];
    token.control = kind != TokenKind::user_defined;
    tokens.push_back(std::move(token));
  }
  return AddedTokens(std::move(tokens), data.source);
}

void build_byte_level(const VocabularyData& data, const std::vector<bool>& is_text,
                      TokenizerParts& parts) {
  const PreTokenizerName& pre = find_pre_tokenizer(data);
  if (data.merges.empty())
    fail(ErrorCode::data_corrupt, "{}: tokenizer.ggml.merges: missing or empty", data.source);
  if (data.add_space_prefix.value_or(false))
    fail(ErrorCode::unsupported,
         "{}: tokenizer.ggml.add_space_prefix: true is not supported with tokenizer model gpt2",
         data.source);
  BpeOptions options;
  options.ignore_merges = pre.ignore_merges;
  parts.pre_tokenizers.push_back(pattern_pre_tokenizer(pre.pattern));
  parts.model =
      std::make_unique<BpeModel>(*data.pieces, is_text, merges_of(data, is_text), options);
  parts.decode_steps.push_back(byte_level_decode_step());
  parts.specials.add_bos = data.add_bos.value_or(pre.add_bos);
  parts.specials.add_eos = data.add_eos.value_or(false);
}

void build_score_bpe(VocabularyData& data, const std::vector<bool>& is_text,
                     TokenizerParts& parts) {
  if (data.scores.empty())
    fail(ErrorCode::data_corrupt, "{}: tokenizer.ggml.scores: missing", data.source);
  auto model = std::make_unique<ScoreBpeModel>(*data.pieces, std::move(data.scores), is_text,
                                               parts.specials.unknown);
  const bool prefix = data.add_space_prefix.value_or(true);
  if (prefix) parts.normalizers.push_back(prepend_normalizer(" "));
  parts.normalizers.push_back(replace_normalizer(" ", std::string(kSpaceMark)));
  SpaceBorders borders(*data.pieces, is_text);
  if (borders.usable()) parts.pre_tokenizers.push_back(space_border_pre_tokenizer(borders));
  parts.model = std::move(model);
  parts.decode_steps.push_back(replace_decode_step(std::string(kSpaceMark), " "));
  if (prefix) parts.decode_steps.push_back(strip_front_decode_step(" ", 1, true));
  parts.specials.add_bos = data.add_bos.value_or(true);
  parts.specials.add_eos = data.add_eos.value_or(false);
}

void build_unigram(VocabularyData& data, const std::vector<bool>& is_text, TokenizerParts& parts) {
  if (data.scores.empty())
    fail(ErrorCode::data_corrupt, "{}: tokenizer.ggml.scores: missing", data.source);
  if (parts.specials.unknown == kNoToken)
    fail(ErrorCode::data_corrupt, "{}: tokenizer.ggml.unknown_token_id: missing", data.source);
  std::vector<double> scores(data.scores.begin(), data.scores.end());
  std::vector<bool> is_normal(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    is_normal[i] = parts.kinds[i] == TokenKind::normal;
    if (parts.kinds[i] == TokenKind::user_defined) scores[i] = 0;
  }
  SentencePieceRules rules;
  rules.add_space_prefix = data.add_space_prefix.value_or(false);
  rules.remove_extra_whitespaces = data.remove_extra_whitespaces.value_or(false);
  parts.normalizers.push_back(
      sentencepiece_normalizer(Charsmap(data.precompiled_charsmap, data.source), rules));
  parts.model = std::make_unique<UnigramModel>(
      *data.pieces, std::move(scores), is_text, is_normal,
      UnigramModel::Options{parts.specials.unknown, /*byte_fallback=*/false});
  parts.decode_steps.push_back(replace_decode_step(std::string(kSpaceMark), " "));
  if (rules.add_space_prefix || rules.remove_extra_whitespaces)
    parts.decode_steps.push_back(strip_front_decode_step(" ", 1, true));
  parts.specials.add_bos = data.add_bos.value_or(false);
  parts.specials.add_eos = data.add_eos.value_or(true);
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_vocabulary(VocabularyData data) {
  check_sizes(data);
  data.pieces->build_index();
  TokenizerParts parts;
  parts.kinds = kinds_of(data);
  parts.specials = specials_of(data);
  find_end_tokens(*data.pieces, parts.kinds, parts.specials);
  parts.added = added_tokens_of(data, parts.kinds);
  const std::vector<bool> is_text = text_pieces(parts.kinds);
  if (data.model == "gpt2")
    build_byte_level(data, is_text, parts);
  else if (data.model == "llama")
    build_score_bpe(data, is_text, parts);
  else if (data.model == "t5")
    build_unigram(data, is_text, parts);
  else
    fail(ErrorCode::unsupported, "{}: tokenizer.ggml.model: unknown tokenizer '{}'; known: {}",
         data.source, data.model, "gpt2, llama, t5");
  for (const auto& [want, id, key] :
       {std::tuple(parts.specials.add_bos, parts.specials.bos, "bos"),
        std::tuple(parts.specials.add_eos, parts.specials.eos, "eos")})
    if (want && id == kNoToken)
      log_warning("{}: tokenizer.ggml.add_{}_token is true but there is no {} token", data.source,
                  key, key);
  parts.pieces = std::move(data.pieces);  // the model's reference stays good
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace strata
