#include "train/character_tokenizer.h"

#include <set>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace strata {

std::string character_tokenizer_json(std::string_view text) {
  std::set<char32_t> characters;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text.substr(at));
    if (!step.valid)
      fail(ErrorCode::data_corrupt, "characters: byte {} of the text is no UTF-8", at);
    characters.insert(step.code_point);
    at += static_cast<size_t>(step.length);
  }
  const std::vector<char32_t> ascending(characters.begin(), characters.end());
  return character_tokenizer_json(ascending);
}

std::string character_tokenizer_json(std::span<const char32_t> characters) {
  OrderedJson vocabulary = OrderedJson::object();
  // Appended as to a vector: operator[] would look through all that are there, each time.
  using Object = OrderedJson::object_t;
  auto& entries = static_cast<Object::Container&>(vocabulary.get_ref<Object&>());
  int64_t id = 0;
  for (const char32_t c : characters) {
    std::string spelling;
    append_utf8(spelling, c);
    entries.emplace_back(spelling, id++);
  }
  constexpr const char* kUnknown = "[UNK]";
  entries.emplace_back(kUnknown, id);
  OrderedJson out;
  out["version"] = "1.0";
  out["truncation"] = nullptr;
  out["padding"] = nullptr;
  out["added_tokens"] = OrderedJson::array();
  out["normalizer"] = nullptr;
  // Every character is a word of its own, line ends too.
  out["pre_tokenizer"] = {{"type", "Split"},
                          {"pattern", {{"Regex", "[\\s\\S]"}}},
                          {"behavior", "Isolated"},
                          {"invert", false}};
  out["post_processor"] = nullptr;
  out["decoder"] = {{"type", "Fuse"}};
  out["model"]["type"] = "WordLevel";
  out["model"]["vocab"] = std::move(vocabulary);
  out["model"]["unk_token"] = kUnknown;
  return out.dump(1) + "\n";
}

}  // namespace strata
