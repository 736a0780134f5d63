#include "text/gguf_vocabulary.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace strata {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr std::string_view kSpecialIds[] = {
    "bos_token_id",     "eos_token_id",     "eot_token_id",     "eom_token_id",
    "unknown_token_id", "padding_token_id", "fim_pre_token_id", "fim_suf_token_id",
    "fim_mid_token_id", "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id",
    "prefix_token_id",  "suffix_token_id",  "middle_token_id"};

std::string key_of(std::string_view name) { return std::string(kPrefix) + std::string(name); }

// Any integer; what no vocabulary can have becomes -1, which tokenizer_from_vocabulary warns of.
int64_t special_id(const GgufMetadata& metadata, std::string_view name, const GgufValue& value) {
  if (const auto* positive = std::get_if<uint64_t>(&value.data))
    return *positive > std::numeric_limits<int32_t>::max() ? -1 : static_cast<int64_t>(*positive);
  if (const auto* any = std::get_if<int64_t>(&value.data)) return *any;
  metadata.refuse(key_of(name), "is not an integer");
}

}  // namespace

VocabularyData vocabulary_from_gguf(const GgufMetadata& metadata) {
  VocabularyData data;
  data.source = metadata.file();
  data.model = std::string(metadata.get_string(key_of("model")));
  data.pre = std::string(metadata.find_string(key_of("pre")).value_or(""));

  const GgufStrings& tokens = metadata.get_strings(key_of("tokens"));
  size_t bytes = 0;
  for (size_t i = 0; i < tokens.size(); ++i) bytes += tokens[i].size();
  data.pieces->reserve(tokens.size(), bytes);
  for (size_t i = 0; i < tokens.size(); ++i) data.pieces->add(tokens[i]);

  if (auto scores = metadata.find_f32s(key_of("scores"))) data.scores = std::move(*scores);
  if (auto types = metadata.find_i32s(key_of("token_type"))) data.token_types = std::move(*types);
  if (const GgufStrings* merges = metadata.find_strings(key_of("merges"))) {
    data.merges.reserve(merges->size());
    for (size_t i = 0; i < merges->size(); ++i) data.merges.emplace_back((*merges)[i]);
  }
  if (const GgufValue* charsmap = metadata.find(key_of("precompiled_charsmap"))) {
    const auto* array = std::get_if<GgufArray>(&charsmap->data);
    if (array == nullptr ||
        (array->element_type != GgufType::u8 && array->element_type != GgufType::i8))
      metadata.refuse(key_of("precompiled_charsmap"), "is not an array of bytes");
    data.precompiled_charsmap.resize(array->numbers.size());
    if (!array->numbers.empty())
      std::memcpy(data.precompiled_charsmap.data(), array->numbers.data(), array->numbers.size());
  }
  for (const std::string_view name : kSpecialIds)
    if (const GgufValue* value = metadata.find(key_of(name)))
      data.special_ids.emplace_back(std::string(name), special_id(metadata, name, *value));
  data.add_bos = metadata.find_bool(key_of("add_bos_token"));
  data.add_eos = metadata.find_bool(key_of("add_eos_token"));
  data.add_space_prefix = metadata.find_bool(key_of("add_space_prefix"));
  data.remove_extra_whitespaces = metadata.find_bool(key_of("remove_extra_whitespaces"));
  return data;
}

std::unique_ptr<Tokenizer> tokenizer_from_gguf(const GgufMetadata& metadata) {
  return tokenizer_from_vocabulary(vocabulary_from_gguf(metadata));
}

}  // namespace strata
