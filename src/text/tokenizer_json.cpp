#include "text/tokenizer_json.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/bpe_model.h"
#include "text/byte_alphabet.h"
#include "text/end_tokens.h"
#include "text/json_components.h"
#include "text/json_specials.h"
#include "text/pipeline_tokenizer.h"
#include "text/unigram_model.h"
#include "text/word_models.h"

namespace strata {
namespace {

// The vocabulary while it is put together: spelling by id, holes empty.
struct Draft {
  std::vector<std::string> pieces;
  std::vector<bool> taken;
  std::vector<TokenKind> kinds;
  std::vector<double> scores;  // Unigram only

  // Ids may have holes, but not so many that a file of a few bytes asks for gigabytes.
  void put(const JsonPlace& place, int64_t id, std::string_view piece, size_t known_pieces) {
    const auto limit = static_cast<int64_t>(known_pieces * 4 + 65536);
    if (id < 0 || id >= limit)
      fail(ErrorCode::data_corrupt, "{}: id {} for '{}' is outside 0..{}", place.where, id, piece,
           limit - 1);
    const auto i = static_cast<size_t>(id);
    if (i >= pieces.size()) {
      pieces.resize(i + 1);
      taken.resize(i + 1, false);
      kinds.resize(i + 1, TokenKind::unused);
    }
    if (taken[i] && pieces[i] != piece)
      fail(ErrorCode::data_corrupt, "{}: id {} is both '{}' and '{}'", place.where, id, pieces[i],
           piece);
    pieces[i] = std::string(piece);
    if (!taken[i]) kinds[i] = TokenKind::normal;
    taken[i] = true;
  }
};

void read_vocabulary_map(const JsonPlace& vocab, Draft& draft) {
  simdjson::dom::object object;
  if (vocab.value.get_object().get(object)) vocab.wrong("an object of pieces and ids");
  size_t count = 0;
  for ([[maybe_unused]] const auto& field : object) ++count;
  for (const auto& [key, value] : object) {
    int64_t id = 0;
    if (value.get_int64().get(id)) vocab.wrong("integer ids");
    draft.put(vocab, id, key, count);
  }
}

void read_unigram_list(const JsonPlace& vocab, Draft& draft) {
  simdjson::dom::array list;
  if (vocab.value.get_array().get(list)) vocab.wrong("an array of [piece, score]");
  const size_t count = list.size();
  int64_t id = 0;
  vocab.each([&](const JsonPlace& entry) {
    simdjson::dom::array pair;
    std::string_view piece;
    double score = 0;
    if (entry.value.get_array().get(pair) || pair.size() != 2 ||
        pair.at(0).get_string().get(piece) || pair.at(1).get_double().get(score) ||
        !std::isfinite(score))
      entry.wrong("[piece, score]");
    draft.put(entry, id++, piece, std::max(count, size_t{0xFFFFFF}));
    draft.scores.push_back(score);
  });
}

std::vector<AddedToken> read_added_tokens(const JsonPlace& root, Draft& draft) {
  std::vector<AddedToken> tokens;
  if (!root.has("added_tokens")) return tokens;
  const JsonPlace list = root.member("added_tokens");
  list.each([&](const JsonPlace& entry) {
    AddedToken token;
    token.content = std::string(entry.string("content"));
    const int64_t id = entry.member("id").integer();
    token.control = entry.boolean("special", false);
    token.single_word = entry.boolean("single_word", false);
    token.lstrip = entry.boolean("lstrip", false);
    token.rstrip = entry.boolean("rstrip", false);
    token.normalized = entry.boolean("normalized", !token.control);
    draft.put(entry, id, token.content, draft.pieces.size() + tokens.size());
    token.id = static_cast<TokenId>(id);
    draft.kinds[static_cast<size_t>(id)] =
        token.control ? TokenKind::control : TokenKind::user_defined;
    tokens.push_back(std::move(token));
  });
  return tokens;
}

// Control tokens are looked for in the text as it came, where the marks of the caller are; others
// with `normalized` in the normalized text, by their normalized spelling, as the reference does.
void set_added_tokens(std::vector<AddedToken> tokens, std::string_view source,
                      TokenizerParts& parts) {
  std::vector<AddedToken> plain;
  std::vector<AddedToken> normalized;
  for (AddedToken& token : tokens) {
    if (token.normalized && !token.control && !parts.normalizers.empty()) {
      for (const auto& normalizer : parts.normalizers) normalizer->apply(token.content);
      normalized.push_back(std::move(token));
    } else {
      plain.push_back(std::move(token));
    }
  }
  parts.added = AddedTokens(std::move(plain), source);
  parts.added_normalized = AddedTokens(std::move(normalized), source);
}

TokenId id_of(const PieceTable& pieces, const JsonPlace& place) {
  const TokenId id = pieces.find(place.string());
  if (id == kNoToken)
    fail(ErrorCode::data_corrupt, "{}: '{}' is not in the vocabulary", place.where, place.string());
  return id;
}

MergeTable read_merges(const JsonPlace& merges, const PieceTable& pieces,
                       const std::vector<bool>& is_text) {
  simdjson::dom::array list;
  if (merges.value.get_array().get(list)) merges.wrong("an array of merges");
  size_t count = 0;
  for ([[maybe_unused]] const auto item : list) ++count;
  MergeTable table;
  table.reserve(count);
  uint32_t rank = 0;
  std::string joined;
  for (const simdjson::dom::element item : list) {
    const auto corrupt = [&](std::string_view problem) {
      fail(ErrorCode::data_corrupt, "{}[{}]: {}", merges.where, rank, problem);
    };
    std::string_view left, right;
    simdjson::dom::array pair;
    if (std::string_view line; !item.get_string().get(line)) {
      const size_t space = line.find(' ');
      if (space == std::string_view::npos) corrupt("no space between two pieces");
      left = line.substr(0, space);
      right = line.substr(space + 1);
    } else if (item.get_array().get(pair) || pair.size() != 2 ||
               pair.at(0).get_string().get(left) || pair.at(1).get_string().get(right)) {
      corrupt("wanted \"left right\" or [left, right]");
    }
    const TokenId a = pieces.find(left);
    const TokenId b = pieces.find(right);
    if (a == kNoToken || b == kNoToken) corrupt("names a piece that is not in the vocabulary");
    joined.assign(left);
    joined += right;
    const TokenId merged = pieces.find(joined);
    if (merged == kNoToken) corrupt("the joined piece is not in the vocabulary");
    // Text never becomes a control token.
    if (is_text[static_cast<size_t>(merged)])
      table.add(a, b, {rank, merged}, MergeTable::Duplicate::keep_last);
    ++rank;
  }
  return table;
}

std::string model_type(const JsonPlace& model) {
  if (model.has("type")) return std::string(model.string("type"));
  if (model.has("merges")) return "BPE";  // files of before 2020 do not say
  return model.has("unk_id") ? "Unigram" : "WordLevel";
}

void build_bpe(const JsonPlace& model, bool byte_level, const std::vector<bool>& is_text,
               TokenizerParts& parts) {
  for (const char* option : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.has(option) && !model.string(option).empty())
      model.unsupported("BPE with " + std::string(option));
  if (model.has("dropout") && model.member("dropout").number() != 0)
    model.unsupported("BPE with dropout");
  BpeOptions options;
  options.symbols = byte_level ? BpeOptions::Symbols::bytes : BpeOptions::Symbols::characters;
  options.ignore_merges = model.boolean("ignore_merges", false);
  options.byte_fallback = model.boolean("byte_fallback", false);
  options.fuse_unknown = model.boolean("fuse_unk", false);
  if (model.has("unk_token")) options.unknown = id_of(*parts.pieces, model.member("unk_token"));
  if (!byte_level && !options.ignore_merges) {
    SpaceBorders borders(*parts.pieces, is_text);
    if (borders.usable()) parts.pre_tokenizers.push_back(space_border_pre_tokenizer(borders));
  }
  parts.model = std::make_unique<BpeModel>(
      *parts.pieces, is_text, read_merges(model.member("merges"), *parts.pieces, is_text), options);
}

void build_model(const JsonPlace& model, const std::string& type, bool byte_level,
                 const std::vector<bool>& is_text, Draft& draft, TokenizerParts& parts) {
  if (type == "BPE") return build_bpe(model, byte_level, is_text, parts);
  if (byte_level) model.unsupported("ByteLevel before a model other than BPE");
  if (type == "Unigram") {
    const bool byte_fallback = model.boolean("byte_fallback", false);
    if (!model.has("unk_id")) model.unsupported("Unigram without unk_id");
    UnigramModel::Options options{parts.specials.unknown, byte_fallback};
    std::vector<bool> is_normal(is_text.size(), false);
    // The lowest score counts over the whole list, control pieces too, as in the reference.
    for (size_t i = 0; i < draft.scores.size(); ++i) is_normal[i] = true;
    draft.scores.resize(is_text.size(), 0.0);
    parts.model = std::make_unique<UnigramModel>(*parts.pieces, std::move(draft.scores), is_text,
                                                 is_normal, options);
    return;
  }
  const TokenId unknown = id_of(*parts.pieces, model.member("unk_token"));
  if (type == "WordLevel") {
    parts.model = std::make_unique<WordLevelModel>(*parts.pieces, is_text, unknown);
    return;
  }
  const int64_t most = model.has("max_input_chars_per_word")
                           ? model.member("max_input_chars_per_word").integer()
                           : 100;
  // The longest-match search is quadratic in a word's length.
  if (most < 0 || most > 1000) model.unsupported("max_input_chars_per_word above 1000");
  parts.model =
      std::make_unique<WordPieceModel>(*parts.pieces, is_text, unknown,
                                       model.has("continuing_subword_prefix")
                                           ? std::string(model.string("continuing_subword_prefix"))
                                           : "##",
                                       most);
}

// The unknown token of the model, and which pieces are byte tokens.
void mark_kinds(const JsonPlace& model, const std::string& type, Draft& draft,
                const PieceTable& pieces, TokenizerParts& parts) {
  TokenId unknown = kNoToken;
  if (type == "Unigram") {
    if (model.has("unk_id")) {
      const int64_t id = model.member("unk_id").integer();
      if (id < 0 || id >= pieces.size())
        fail(ErrorCode::data_corrupt, "{}.unk_id: {} is outside the vocabulary of {}", model.where,
             id, pieces.size());
      unknown = static_cast<TokenId>(id);
    }
  } else if (model.has("unk_token")) {
    unknown = id_of(pieces, model.member("unk_token"));
  }
  parts.specials.unknown = unknown;
  if (unknown != kNoToken) draft.kinds[static_cast<size_t>(unknown)] = TokenKind::unknown;
  if (!model.boolean("byte_fallback", false)) return;
  for (TokenId id = 0; id < pieces.size(); ++id)
    if (TokenKind& kind = draft.kinds[static_cast<size_t>(id)];
        kind == TokenKind::normal && byte_of_hex_piece(pieces[id]))
      kind = TokenKind::byte;
}

simdjson::dom::element parse(simdjson::dom::parser& parser, const std::string& text,
                             const std::string& name) {
  simdjson::dom::element root;
  if (const auto error = parser.parse(text).get(root))
    fail(ErrorCode::data_corrupt, "{}: no JSON: {}", name, simdjson::error_message(error));
  return root;
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_json(const TokenizerFiles& files) {
  simdjson::dom::parser parser;
  const JsonPlace root{parse(parser, files.tokenizer, files.source), files.source};
  const JsonPlace model = root.member("model");
  const std::string type = model_type(model);
  Draft draft;
  if (type == "Unigram")
    read_unigram_list(model.member("vocab"), draft);
  else if (type == "BPE" || type == "WordLevel" || type == "WordPiece")
    read_vocabulary_map(model.member("vocab"), draft);
  else
    model.unsupported("model '" + type + "'");
  std::vector<AddedToken> added = read_added_tokens(root, draft);

  TokenizerParts parts;
  parts.pieces = std::make_unique<PieceTable>();
  for (const std::string& piece : draft.pieces) parts.pieces->add(piece);
  parts.pieces->build_index();
  draft.pieces.clear();
  mark_kinds(model, type, draft, *parts.pieces, parts);

  const auto component = [&](std::string_view key) {
    return root.has(key) ? root.member(key) : JsonPlace{{}, ""};
  };
  if (root.has("normalizer")) add_json_normalizers(component("normalizer"), parts.normalizers);
  JsonPreTokenizers pre;
  if (root.has("pre_tokenizer")) pre = json_pre_tokenizers(component("pre_tokenizer"));
  parts.pre_tokenizers = std::move(pre.list);
  JsonDecoder decoder;
  if (root.has("decoder")) decoder = json_decoder(component("decoder"));
  parts.decode_steps = std::move(decoder.steps);
  parts.decode_user_defined = !decoder.byte_level;

  read_json_specials(root, files, *parts.pieces, parts.specials);
  find_end_tokens(*parts.pieces, draft.kinds, parts.specials);
  for (AddedToken& token : added)
    token.control = draft.kinds[static_cast<size_t>(token.id)] == TokenKind::control ||
                    draft.kinds[static_cast<size_t>(token.id)] == TokenKind::unknown;
  set_added_tokens(std::move(added), files.source, parts);

  std::vector<bool> is_text(draft.kinds.size());
  for (size_t i = 0; i < is_text.size(); ++i)
    is_text[i] = draft.taken[i] &&
                 (draft.kinds[i] == TokenKind::normal || draft.kinds[i] == TokenKind::user_defined);
  build_model(model, type, pre.byte_level, is_text, draft, parts);
  parts.kinds = std::move(draft.kinds);
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

std::unique_ptr<Tokenizer> tokenizer_from_folder(const std::filesystem::path& folder) {
  const auto read = [&](const char* name) {
    std::ifstream in(folder / name, std::ios::binary);
    std::ostringstream text;
    if (in) text << in.rdbuf();
    return std::move(text).str();
  };
  TokenizerFiles files;
  files.source = (folder / "tokenizer.json").string();
  if (!std::filesystem::is_regular_file(files.source))
    fail(ErrorCode::not_found, "{}: there is no such file", files.source);
  files.tokenizer = read("tokenizer.json");
  files.config = read("tokenizer_config.json");
  files.special_tokens = read("special_tokens_map.json");
  files.generation = read("generation_config.json");
  return tokenizer_from_json(files);
}

}  // namespace strata
