#include "server/fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "server/api_error.h"

namespace strata::server {
namespace {

constexpr size_t kShownLength = 80;

// A value as a message shows it: short, whatever was sent.
std::string shown(const Json& value) {
  std::string text = to_json_text(value);
  if (text.size() <= kShownLength) return text;
  return std::string(clipped_utf8(text, kShownLength)) + "...";
}

ApiError wrong_type(std::string_view field, const Json& value, std::string_view wanted) {
  return bad_field(field, fmt::format("{}: got {}, wanted {}", field, shown(value), wanted));
}

}  // namespace

std::optional<int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto n = value.get<uint64_t>();
    if (n <= static_cast<uint64_t>(INT64_MAX)) return static_cast<int64_t>(n);
    return std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    const auto n = value.get<double>();
    if (std::trunc(n) == n && std::abs(n) < 0x1p53) return static_cast<int64_t>(n);
  }
  return std::nullopt;
}

RequestFields::RequestFields(Json body, std::span<const FieldSpec> table, bool lenient)
    : body_(std::move(body)) {
  if (!body_.is_object())
    throw ApiError(400, "invalid_request_error",
                   fmt::format("the body is {}, wanted a JSON object", body_.type_name()),
                   "invalid_value");
  for (const auto& [key, value] : body_.items()) {
    const auto spec = std::find_if(table.begin(), table.end(), [&wanted = key](const FieldSpec& s) {
      return s.name == wanted;
    });
    const bool unknown = spec == table.end();
    const std::string name(clipped_utf8(key, kShownLength));
    if (unknown && !lenient)
      throw ApiError(400, "invalid_request_error",
                     fmt::format("unknown field '{}' (--lenient ignores unknown fields)", name),
                     "unknown_field", name);
    if (unknown) {
      ignored_.push_back(name);
      continue;
    }
    if (spec->field_class != FieldClass::neutral || value.is_null()) continue;
    const Json allowed = Json::parse(spec->neutral);
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) continue;
    if (!lenient)
      throw unsupported_field(key, fmt::format("{}: {} is not supported; {}", key, shown(value),
                                               allowed.empty() ? std::string("leave the field out")
                                                               : "accepted: " + allowed.dump()));
    ignored_.push_back(key);
  }
}

const Json* RequestFields::find(std::string_view name) const {
  const auto it = body_.find(name);
  return it == body_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<bool> RequestFields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) throw wrong_type(name, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> RequestFields::text(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) throw wrong_type(name, *value, "a string");
  return value->get<std::string>();
}

std::optional<int64_t> RequestFields::integer(std::string_view name, int64_t least,
                                              int64_t most) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = whole_number(*value);
  if (!number || *number < least || *number > most)
    throw wrong_type(name, *value,
                     most == INT64_MAX ? fmt::format("a whole number of at least {}", least)
                                       : fmt::format("a whole number from {} to {}", least, most));
  return number;
}

std::optional<double> RequestFields::number(std::string_view name, double least,
                                            double most) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most))
    throw wrong_type(name, *value, fmt::format("a number from {:g} to {:g}", least, most));
  return value->get<double>();
}

std::vector<std::string> RequestFields::texts(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  const auto is_text = [](const Json& v) { return v.is_string(); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_text))
    throw wrong_type(name, *value, "a string or an array of strings");
  return value->get<std::vector<std::string>>();
}

}  // namespace strata::server
