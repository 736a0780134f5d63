#include "text/json_components.h"

#include "base/error.h"

namespace strata {

JsonPlace JsonPlace::member(std::string_view key) const {
  JsonPlace out{{}, where + "." + std::string(key)};
  simdjson::dom::object object;
  if (value.get_object().get(object)) wrong("an object");
  if (object.at_key(key).get(out.value)) fail(ErrorCode::data_corrupt, "{}: missing", out.where);
  return out;
}

bool JsonPlace::has(std::string_view key) const {
  simdjson::dom::object object;
  simdjson::dom::element found;
  return !value.get_object().get(object) && !object.at_key(key).get(found) && !found.is_null();
}

std::string_view JsonPlace::string() const {
  std::string_view text;
  if (value.get_string().get(text)) wrong("a string");
  return text;
}

bool JsonPlace::boolean(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const JsonPlace found = member(key);
  bool b = false;
  if (found.value.get_bool().get(b)) found.wrong("true or false");
  return b;
}

int64_t JsonPlace::integer() const {
  int64_t n = 0;
  if (value.get_int64().get(n)) wrong("an integer");
  return n;
}

double JsonPlace::number() const {
  double n = 0;
  if (value.get_double().get(n)) wrong("a number");
  return n;
}

void JsonPlace::wrong(std::string_view wanted) const {
  fail(ErrorCode::data_corrupt, "{}: is {}, wanted {}", where,
       simdjson::to_string(value).substr(0, 60), wanted);
}

void JsonPlace::unsupported(std::string_view what) const {
  fail(ErrorCode::unsupported, "{}: {} is not supported", where, what);
}

}  // namespace strata
