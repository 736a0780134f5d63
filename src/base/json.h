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
};

// Parses text from outside. Throws Error{invalid_argument} naming the byte offset for: text that is
// no JSON, ill-formed UTF-8, lone surrogates, NaN and infinities, duplicate keys, nesting deeper
// than max_depth, objects with too many keys, anything after the value. A leading BOM is skipped.
Json parse_json(std::string_view text, const JsonLimits& limits = {});
OrderedJson parse_ordered_json(std::string_view text, const JsonLimits& limits = {});

// Compact text; ill-formed UTF-8 in strings becomes U+FFFD, so it never throws.
std::string to_json_text(const Json& value);
std::string to_json_text(const OrderedJson& value);

}  // namespace strata
