#include "model/key_reader.h"

#include <cmath>

#include "base/error.h"

namespace strata {

std::optional<int64_t> KeyReader::find_integer(std::string_view key, int64_t least, int64_t most) {
  mark_read(key);
  if (!present(key)) return std::nullopt;
  const int64_t value = integer(key);
  if (value < least || value > most)
    refuse(key, fmt::format("is {}, wanted {} to {}", value, least, most));
  return value;
}

std::optional<double> KeyReader::find_real(std::string_view key, double above, double most) {
  mark_read(key);
  if (!present(key)) return std::nullopt;
  const double value = real(key);
  if (!(value > above && value <= most))  // also for NaN
    refuse(key, fmt::format("is {}, wanted more than {} and at most {}", value, above, most));
  return value;
}

std::optional<std::string> KeyReader::find_text(std::string_view key) {
  mark_read(key);
  if (!present(key)) return std::nullopt;
  return text(key);
}

std::optional<bool> KeyReader::find_flag(std::string_view key) {
  mark_read(key);
  if (!present(key)) return std::nullopt;
  return flag(key);
}

int64_t KeyReader::get_integer(std::string_view key, int64_t least, int64_t most) {
  const std::optional<int64_t> value = find_integer(key, least, most);
  if (!value) refuse(key, "is missing");
  return *value;
}

void KeyReader::want_neutral(std::string_view key, double neutral, std::string_view meaning) {
  mark_read(key);
  if (!present(key)) return;
  const double value = real(key);
  if (value != neutral) unsupported(key, fmt::format("{}", value), meaning);
}

void KeyReader::want_neutral_flag(std::string_view key, bool neutral, std::string_view meaning) {
  mark_read(key);
  if (!present(key)) return;
  const bool value = flag(key);
  if (value != neutral) unsupported(key, value ? "true" : "false", meaning);
}

void KeyReader::refuse(std::string_view key, std::string_view problem) const {
  fail(ErrorCode::data_corrupt, "{}: key '{}' {}", file(), full_name(key), problem);
}

void KeyReader::unsupported(std::string_view key, std::string_view value,
                            std::string_view meaning) const {
  fail(ErrorCode::unsupported, "{}: key '{}' is {}: {} is not implemented", file(), full_name(key),
       value, meaning);
}

std::vector<std::string> KeyReader::unread() const {
  std::vector<std::string> result;
  for (const std::string& key : keys())
    if (read_.count(key) == 0) result.push_back(full_name(key));
  return result;
}

// ---- GGUF ---------------------------------------------------------------------------------------

int64_t GgufKeys::integer(std::string_view key) const {
  const GgufValue& value = *metadata_.find(key);
  if (const auto* u = std::get_if<uint64_t>(&value.data))
    return *u > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(*u);
  if (const auto* i = std::get_if<int64_t>(&value.data)) return *i;
  refuse(key, fmt::format("is {}, wanted an integer", describe(value)));
}

double GgufKeys::real(std::string_view key) const {
  const GgufValue& value = *metadata_.find(key);
  if (const auto* f = std::get_if<double>(&value.data)) return *f;
  if (const auto* u = std::get_if<uint64_t>(&value.data)) return static_cast<double>(*u);
  if (const auto* i = std::get_if<int64_t>(&value.data)) return static_cast<double>(*i);
  refuse(key, fmt::format("is {}, wanted a number", describe(value)));
}

std::string GgufKeys::text(std::string_view key) const {
  const GgufValue& value = *metadata_.find(key);
  if (const auto* s = std::get_if<std::string>(&value.data)) return *s;
  refuse(key, fmt::format("is {}, wanted text", describe(value)));
}

bool GgufKeys::flag(std::string_view key) const {
  const GgufValue& value = *metadata_.find(key);
  if (const auto* b = std::get_if<bool>(&value.data)) return *b;
  refuse(key, fmt::format("is {}, wanted true or false", describe(value)));
}

std::vector<std::string> GgufKeys::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : metadata_.values()) result.push_back(key);
  return result;
}

// ---- config.json --------------------------------------------------------------------------------

bool JsonKeys::present(std::string_view key) const {
  const auto it = object_.find(key);
  return it != object_.end() && !it->is_null();
}

bool JsonKeys::has_null(std::string_view key) const {
  const auto it = object_.find(key);
  return it != object_.end() && it->is_null();
}

bool JsonKeys::is_object(std::string_view key) const { return present(key) && at(key).is_object(); }

std::optional<JsonKeys> JsonKeys::find_object(std::string_view key) {
  mark_read(key);
  if (!present(key)) return std::nullopt;
  if (!at(key).is_object()) wrong_type(key, "an object");
  return JsonKeys(at(key), file_, path_ + std::string(key) + ".");
}

std::optional<std::vector<std::string>> JsonKeys::find_texts(std::string_view key) {
  mark_read(key);
  if (!present(key)) return std::nullopt;
  std::vector<std::string> result;
  if (!at(key).is_array()) wrong_type(key, "a list of words");
  for (const Json& item : at(key)) {
    if (!item.is_string()) wrong_type(key, "a list of words");
    result.push_back(item.get<std::string>());
  }
  return result;
}

int64_t JsonKeys::integer(std::string_view key) const {
  const Json& value = at(key);
  if (value.is_number_unsigned()) {
    const auto u = value.get<uint64_t>();
    return u > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(u);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  // Some writers give whole numbers a decimal point.
  if (value.is_number_float()) {
    const auto f = value.get<double>();
    if (f == std::floor(f) && std::fabs(f) < 0x1p53) return static_cast<int64_t>(f);
  }
  wrong_type(key, "an integer");
}

double JsonKeys::real(std::string_view key) const {
  if (!at(key).is_number()) wrong_type(key, "a number");
  return at(key).get<double>();
}

std::string JsonKeys::text(std::string_view key) const {
  if (!at(key).is_string()) wrong_type(key, "text");
  return at(key).get<std::string>();
}

bool JsonKeys::flag(std::string_view key) const {
  if (!at(key).is_boolean()) wrong_type(key, "true or false");
  return at(key).get<bool>();
}

std::vector<std::string> JsonKeys::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : object_.items()) result.push_back(key);
  return result;
}

void JsonKeys::wrong_type(std::string_view key, std::string_view wanted) const {
  std::string got = to_json_text(at(key));
  if (got.size() > 40) got = got.substr(0, 40) + "...";
  refuse(key, fmt::format("is {}, wanted {}", got, wanted));
}

}  // namespace strata
