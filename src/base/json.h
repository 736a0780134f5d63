#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace strata {

using Json = nlohmann::json;
// Keeps the order of keys; for what a template shows (tools, messages) and answers with a fixed
// order. Look-ups are linear: never for large objects.
using OrderedJson = nlohmann::ordered_json;

struct JsonLimits {
  int max_depth = 128;
  size_t max_keys_per_object = 4096;
  // Values of any kind in the whole text. An empty object costs 3 bytes of text and about 64 of
  // memory, so the size of the text alone bounds nothing useful.
  size_t max_values = 2'000'000;
};

// Parses text from outside in time linear in its length. Throws Error{invalid_argument} naming the
// byte offset for: text that is no JSON, ill-formed UTF-8, lone surrogates, NaN, infinities and
// numbers that overflow a double, duplicate keys, anything beyond the limits, anything after the
// value. A leading BOM is skipped.
// Integers beyond 64 bits become doubles (tokenizer_config.json files carry a model_max_length of
// 10^30), so is_number_integer() is false for them: a field that wants an integer refuses them.
Json parse_json(std::string_view text, const JsonLimits& limits = {});
OrderedJson parse_ordered_json(std::string_view text, const JsonLimits& limits = {});

// Compact text; ill-formed UTF-8 in strings becomes U+FFFD and NaN or infinity null, so it never
// throws.
std::string to_json_text(const Json& value);
std::string to_json_text(const OrderedJson& value);

}  // namespace strata
