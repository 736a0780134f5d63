// Request bodies: both parsers take the same texts, refuse with Error{invalid_argument} only, keep
// the limits, and what they take survives being written and read again.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace {

constexpr strata::JsonLimits kLimits{.max_depth = 16, .max_keys_per_object = 8, .max_values = 64};

void require(bool condition) {
  if (!condition) std::abort();
}

template <typename Value, typename Parse>
std::optional<Value> parse(std::string_view text, Parse&& function) {
  try {
    return function(text, kLimits);
  } catch (const strata::Error& e) {
    require(e.code() == strata::ErrorCode::invalid_argument);
    require(strata::is_valid_utf8(e.what()));
    require(std::string_view(e.what()).size() < 400);
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plain = parse<strata::Json>(text, strata::parse_json);
  const auto ordered = parse<strata::OrderedJson>(text, strata::parse_ordered_json);
  require(plain.has_value() == ordered.has_value());
  if (!plain) return 0;
  const std::string written = strata::to_json_text(*ordered);
  require(strata::is_valid_utf8(written));
  require(strata::parse_ordered_json(written) == *ordered);
  require(strata::parse_json(written) == *plain);
  return 0;
}
