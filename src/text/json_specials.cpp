#include "text/json_specials.h"

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"

namespace strata {
namespace {

TokenId checked_id(const JsonPlace& place, int64_t id, const PieceTable& pieces) {
  if (id < 0 || id >= pieces.size())
    fail(ErrorCode::data_corrupt, "{}: id {} is outside the vocabulary of {}", place.where, id,
         pieces.size());
  return static_cast<TokenId>(id);
}

// What a post-processor puts around a text.
struct Around {
  TokenId before = kNoToken;
  TokenId after = kNoToken;

  void put(const JsonPlace& place, TokenId id, bool text_seen) {
    TokenId& slot = text_seen ? after : before;
    if (slot != kNoToken) place.unsupported("more than one token at one end of a text");
    slot = id;
  }
};

void read_template(const JsonPlace& place, const PieceTable& pieces, Around& around) {
  bool text_seen = false;
  place.member("single").each([&](const JsonPlace& item) {
    if (item.has("Sequence")) {
      if (text_seen) item.unsupported("a text twice");
      text_seen = true;
      return;
    }
    const std::string_view name = item.member("SpecialToken").string("id");
    const JsonPlace token = place.member("special_tokens").member(name);
    token.member("ids").each([&](const JsonPlace& id) {
      around.put(item, checked_id(id, id.integer(), pieces), text_seen);
    });
  });
  if (!text_seen) place.unsupported("a template without the text");
}

// ["<s>", 0]
TokenId read_pair(const JsonPlace& place, const PieceTable& pieces) {
  simdjson::dom::array pair;
  int64_t id = 0;
  if (place.value.get_array().get(pair) || pair.size() != 2 || pair.at(1).get_int64().get(id))
    place.wrong("[token, id]");
  return checked_id(place, id, pieces);
}

void read_post_processor(const JsonPlace& place, const PieceTable& pieces, Around& around) {
  const std::string_view type = place.string("type");
  if (type == "Sequence") {
    place.member("processors").each([&](const JsonPlace& p) {
      read_post_processor(p, pieces, around);
    });
  } else if (type == "TemplateProcessing") {
    read_template(place, pieces, around);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    around.put(place, read_pair(place.member("cls"), pieces), false);
    around.put(place, read_pair(place.member("sep"), pieces), true);
  } else if (type != "ByteLevel") {  // which only changes offsets
    place.unsupported("post-processor '" + std::string(type) + "'");
  }
}

// A token named in a config: its spelling, or an object with "content".
TokenId named_token(const JsonPlace& config, std::string_view key, const PieceTable& pieces) {
  if (!config.has(key)) return kNoToken;
  const JsonPlace place = config.member(key);
  const std::string_view spelling =
      place.value.is_string() ? place.string() : place.string("content");
  const TokenId id = pieces.find(spelling);
  if (id == kNoToken)
    log_warning("{}: '{}' is not in the vocabulary; ignored", place.where, spelling);
  return id;
}

// Calls f(JsonPlace) when there is such a file.
template <typename F>
void with_json(const std::string& text, const std::string& name, F&& f) {
  if (text.empty()) return;
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.parse(text).get(root))
    fail(ErrorCode::data_corrupt, "{}: no JSON: {}", name, simdjson::error_message(error));
  f(JsonPlace{root, name});
}

bool builds_its_own_post_processor(std::string_view tokenizer_class) {
  for (const std::string_view name : {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer"})
    if (tokenizer_class.substr(0, name.size()) == name) return true;
  return false;
}

}  // namespace

void read_json_specials(const JsonPlace& root, const TokenizerFiles& files,
                        const PieceTable& pieces, Tokenizer::Specials& specials) {
  Around around;
  if (root.has("post_processor"))
    read_post_processor(root.member("post_processor"), pieces, around);
  specials.bos = around.before;
  specials.eos = around.after;
  specials.add_bos = around.before != kNoToken;
  specials.add_eos = around.after != kNoToken;

  const auto take_named = [&](const JsonPlace& config, bool overwrite) {
    const auto take = [&](TokenId& slot, std::string_view key) {
      const TokenId id = named_token(config, key, pieces);
      if (id != kNoToken && (overwrite || slot == kNoToken)) slot = id;
    };
    // What the post-processor adds stays what is added.
    if (!specials.add_bos) take(specials.bos, "bos_token");
    if (!specials.add_eos) take(specials.eos, "eos_token");
    take(specials.pad, "pad_token");
  };
  with_json(files.special_tokens, "special_tokens_map.json",
            [&](const JsonPlace& config) { take_named(config, true); });
  with_json(files.config, "tokenizer_config.json", [&](const JsonPlace& config) {
    take_named(config, true);
    // A text that ends with [SEP] may still have another end-of-answer token.
    if (const TokenId eos = named_token(config, "eos_token", pieces); eos != kNoToken)
      specials.end_of_generation.push_back(eos);
    if (!config.has("tokenizer_class") ||
        !builds_its_own_post_processor(config.string("tokenizer_class")))
      return;
    specials.add_bos = config.boolean("add_bos_token", specials.add_bos);
    specials.add_eos = config.boolean("add_eos_token", specials.add_eos);
  });
  with_json(files.generation, "generation_config.json", [&](const JsonPlace& config) {
    if (!config.has("eos_token_id")) return;
    const auto add = [&](const JsonPlace& place) {
      const int64_t id = place.integer();
      if (id >= 0 && id < pieces.size())
        specials.end_of_generation.push_back(static_cast<TokenId>(id));
      else
        log_warning("{}: {} is outside the vocabulary of {}; ignored", place.where, id,
                    pieces.size());
    };
    const JsonPlace eos = config.member("eos_token_id");
    if (eos.value.is_array())
      eos.each(add);
    else
      add(eos);
  });
}

}  // namespace strata
