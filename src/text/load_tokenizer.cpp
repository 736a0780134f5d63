#include "text/load_tokenizer.h"

#include <utility>

#include "io/gguf.h"
#include "text/tokenizer_json.h"
#include "text/vocabulary.h"

namespace strata {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr std::string_view kIdSuffix = "_token_id";

std::string key(std::string_view name) { return std::string(kPrefix) + std::string(name); }

void take_pieces(const GgufMetadata& metadata, VocabularyData& data) {
  const GgufStrings& tokens = metadata.get_strings(key("tokens"));
  size_t bytes = 0;
  for (size_t i = 0; i < tokens.size(); ++i) bytes += tokens[i].size();
  data.pieces->reserve(tokens.size(), bytes);
  for (size_t i = 0; i < tokens.size(); ++i) data.pieces->add(tokens[i]);
}

void take_merges(const GgufMetadata& metadata, VocabularyData& data) {
  const GgufStrings* merges = metadata.find_strings(key("merges"));
  if (merges == nullptr) return;
  data.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) data.merges.emplace_back((*merges)[i]);
}

// Every `tokenizer.ggml.NAME_token_id`.
void take_special_ids(const GgufMetadata& metadata, VocabularyData& data) {
  for (const auto& [name, value] : metadata.values()) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kIdSuffix)) continue;
    data.special_ids.emplace_back(name.substr(kPrefix.size()),
                                  static_cast<int64_t>(metadata.get_u32(name)));
  }
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_gguf(const GgufMetadata& metadata) {
  VocabularyData data;
  data.source = metadata.file();
  data.model = metadata.get_string(key("model"));
  data.pre = metadata.find_string(key("pre")).value_or("");
  take_pieces(metadata, data);
  data.scores = metadata.find_f32s(key("scores")).value_or(std::vector<float>());
  data.token_types = metadata.find_i32s(key("token_type")).value_or(std::vector<int32_t>());
  take_merges(metadata, data);
  if (const GgufValue* map = metadata.find(key("precompiled_charsmap"))) {
    const auto* array = std::get_if<GgufArray>(&map->data);
    if (array == nullptr || gguf_value_bytes(array->element_type) != 1)
      metadata.refuse(key("precompiled_charsmap"), "is " + describe(*map) + ", wanted bytes");
    data.precompiled_charsmap.resize(array->numbers.size());
    for (size_t i = 0; i < array->numbers.size(); ++i)
      data.precompiled_charsmap[i] = static_cast<char>(array->numbers[i]);
  }
  take_special_ids(metadata, data);
  data.add_bos = metadata.find_bool(key("add_bos_token"));
  data.add_eos = metadata.find_bool(key("add_eos_token"));
  data.add_space_prefix = metadata.find_bool(key("add_space_prefix"));
  data.remove_extra_whitespaces = metadata.find_bool(key("remove_extra_whitespaces"));
  return tokenizer_from_vocabulary(std::move(data));
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return tokenizer_from_folder(path);
  return tokenizer_from_gguf(open_gguf(path)->metadata());
}

}  // namespace strata
