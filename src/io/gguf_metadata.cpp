#include "io/gguf_metadata.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "io/message_text.h"

namespace strata {
namespace {

struct TypeInfo {
  std::string_view name;
  int bytes;
};
constexpr std::array<TypeInfo, 13> kTypes = {{{"u8", 1},
                                              {"i8", 1},
                                              {"u16", 2},
                                              {"i16", 2},
                                              {"u32", 4},
                                              {"i32", 4},
                                              {"f32", 4},
                                              {"bool", 1},
                                              {"string", 0},
                                              {"array", 0},
                                              {"u64", 8},
                                              {"i64", 8},
                                              {"f64", 8}}};

template <typename T>
T number_at(const std::vector<std::byte>& bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

bool is_integer(GgufType type) {
  return type != GgufType::f32 && type != GgufType::f64 && type != GgufType::boolean &&
         gguf_value_bytes(type) > 0;
}

// Element `index` of an array of integers; values of u64 beyond int64_t come out as its maximum,
// which no caller accepts.
int64_t integer_at(const GgufArray& array, size_t index) {
  switch (array.element_type) {
    case GgufType::u8:
      return number_at<uint8_t>(array.numbers, index);
    case GgufType::i8:
      return number_at<int8_t>(array.numbers, index);
    case GgufType::u16:
      return number_at<uint16_t>(array.numbers, index);
    case GgufType::i16:
      return number_at<int16_t>(array.numbers, index);
    case GgufType::u32:
      return number_at<uint32_t>(array.numbers, index);
    case GgufType::i32:
      return number_at<int32_t>(array.numbers, index);
    case GgufType::i64:
      return number_at<int64_t>(array.numbers, index);
    default:
      return static_cast<int64_t>(
          std::min(number_at<uint64_t>(array.numbers, index),
                   static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
  }
}

template <typename T>
GgufValue array_of_numbers(GgufType type, const std::vector<T>& values) {
  GgufArray array;
  array.element_type = type;
  array.count = values.size();
  array.numbers.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(array.numbers.data(), values.data(), array.numbers.size());
  return {GgufType::array, std::move(array)};
}

std::string describe_element(const GgufArray& array, size_t index) {
  switch (array.element_type) {
    case GgufType::string:
      return in_quotes(array.strings[index]);
    case GgufType::f32:
      return fmt::format("{}", number_at<float>(array.numbers, index));
    case GgufType::f64:
      return fmt::format("{}", number_at<double>(array.numbers, index));
    case GgufType::boolean:
      return number_at<uint8_t>(array.numbers, index) != 0 ? "true" : "false";
    case GgufType::u64:
      return fmt::format("{}", number_at<uint64_t>(array.numbers, index));
    default:
      return fmt::format("{}", integer_at(array, index));
  }
}

std::string describe_array(const GgufArray& array) {
  constexpr uint64_t kShown = 4;
  std::string out =
      fmt::format("array of {} {}", array.count, gguf_value_type_name(array.element_type));
  if (array.element_type == GgufType::array) return out;
  for (uint64_t i = 0; i < std::min(array.count, kShown); ++i)
    out += (i == 0 ? ": " : ", ") + describe_element(array, i);
  if (array.count > kShown) out += ", ...";
  return out;
}

}  // namespace

std::string_view gguf_value_type_name(GgufType type) {
  return kTypes[static_cast<size_t>(type)].name;
}
int gguf_value_bytes(GgufType type) { return kTypes[static_cast<size_t>(type)].bytes; }

GgufValue GgufValue::of_u32(uint32_t value) { return {GgufType::u32, uint64_t{value}}; }
GgufValue GgufValue::of_i32(int32_t value) { return {GgufType::i32, int64_t{value}}; }
GgufValue GgufValue::of_u64(uint64_t value) { return {GgufType::u64, value}; }
GgufValue GgufValue::of_f32(float value) { return {GgufType::f32, double{value}}; }
GgufValue GgufValue::of_bool(bool value) { return {GgufType::boolean, value}; }
GgufValue GgufValue::of_string(std::string value) { return {GgufType::string, std::move(value)}; }
GgufValue GgufValue::of_f32s(const std::vector<float>& values) {
  return array_of_numbers(GgufType::f32, values);
}
GgufValue GgufValue::of_i32s(const std::vector<int32_t>& values) {
  return array_of_numbers(GgufType::i32, values);
}
GgufValue GgufValue::of_strings(const std::vector<std::string>& values) {
  GgufArray array;
  array.element_type = GgufType::string;
  array.count = values.size();
  for (const std::string& value : values) array.strings.add(value);
  return {GgufType::array, std::move(array)};
}

std::string describe(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value.data)) return describe_array(*array);
  const std::string_view type = gguf_value_type_name(value.type);
  if (const auto* text = std::get_if<std::string>(&value.data))
    return fmt::format("{} {}", type, in_quotes(*text));
  if (const auto* number = std::get_if<uint64_t>(&value.data))
    return fmt::format("{} {}", type, *number);
  if (const auto* number = std::get_if<int64_t>(&value.data))
    return fmt::format("{} {}", type, *number);
  if (const auto* flag = std::get_if<bool>(&value.data)) return fmt::format("{} {}", type, *flag);
  const double number = std::get<double>(value.data);
  return value.type == GgufType::f32 ? fmt::format("{} {}", type, static_cast<float>(number))
                                     : fmt::format("{} {}", type, number);
}

bool GgufMetadata::insert(std::string key, GgufValue value) {
  return values_.try_emplace(std::move(key), std::move(value)).second;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

void GgufMetadata::refuse(std::string_view key, std::string_view problem) const {
  fail(ErrorCode::data_corrupt, "{}: metadata key {}: {}", file_, in_quotes(key), problem);
}

void GgufMetadata::missing(std::string_view key, std::string_view wanted) const {
  refuse(key, fmt::format("is missing, wanted {}", wanted));
}

void GgufMetadata::wrong_type(std::string_view key, const GgufValue& got,
                              std::string_view wanted) const {
  refuse(key, fmt::format("is {}, wanted {}", describe(got), wanted));
}

std::optional<int64_t> GgufMetadata::find_integer(std::string_view key, std::string_view wanted,
                                                  int64_t least, int64_t most) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(&value->data))
    if (*number >= least && *number <= most) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value->data))
    if (*number <= static_cast<uint64_t>(most)) return static_cast<int64_t>(*number);
  wrong_type(key, *value, wanted);
}

std::optional<uint64_t> GgufMetadata::find_u64(std::string_view key) const {
  if (const GgufValue* value = find(key))
    if (const auto* number = std::get_if<uint64_t>(&value->data)) return *number;
  const auto number = find_integer(key, "u64", 0, std::numeric_limits<int64_t>::max());
  return number ? std::optional(static_cast<uint64_t>(*number)) : std::nullopt;
}

std::optional<uint32_t> GgufMetadata::find_u32(std::string_view key) const {
  const auto number = find_integer(key, "u32", 0, std::numeric_limits<uint32_t>::max());
  return number ? std::optional(static_cast<uint32_t>(*number)) : std::nullopt;
}

std::optional<int32_t> GgufMetadata::find_i32(std::string_view key) const {
  const auto number = find_integer(key, "i32", std::numeric_limits<int32_t>::min(),
                                   std::numeric_limits<int32_t>::max());
  return number ? std::optional(static_cast<int32_t>(*number)) : std::nullopt;
}

std::optional<float> GgufMetadata::find_f32(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(&value->data)) return static_cast<float>(*number);
  wrong_type(key, *value, "f32");
}

std::optional<bool> GgufMetadata::find_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&value->data)) return *flag;
  wrong_type(key, *value, "bool");
}

std::optional<std::string_view> GgufMetadata::find_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&value->data)) return *text;
  wrong_type(key, *value, "string");
}

const GgufArray* GgufMetadata::find_array(std::string_view key, std::string_view wanted) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* array = std::get_if<GgufArray>(&value->data);
  if (array == nullptr) wrong_type(key, *value, wanted);
  return array;
}

const GgufStrings* GgufMetadata::find_strings(std::string_view key) const {
  constexpr std::string_view kWanted = "array of string";
  const GgufArray* array = find_array(key, kWanted);
  if (array != nullptr && array->element_type != GgufType::string)
    wrong_type(key, *find(key), kWanted);
  return array == nullptr ? nullptr : &array->strings;
}

const GgufStrings& GgufMetadata::get_strings(std::string_view key) const {
  const GgufStrings* strings = find_strings(key);
  if (strings == nullptr) missing(key, "array of string");
  return *strings;
}

std::optional<std::vector<float>> GgufMetadata::find_f32s(std::string_view key) const {
  constexpr std::string_view kWanted = "array of f32";
  const GgufArray* array = find_array(key, kWanted);
  if (array == nullptr) return std::nullopt;
  std::vector<float> values(array->count);
  if (array->element_type == GgufType::f32) {
    if (!values.empty()) std::memcpy(values.data(), array->numbers.data(), array->numbers.size());
  } else if (array->element_type == GgufType::f64) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(number_at<double>(array->numbers, i));
  } else {
    wrong_type(key, *find(key), kWanted);
  }
  return values;
}

std::optional<std::vector<int32_t>> GgufMetadata::find_i32s(std::string_view key) const {
  constexpr std::string_view kWanted = "array of i32";
  const GgufArray* array = find_array(key, kWanted);
  if (array == nullptr) return std::nullopt;
  if (!is_integer(array->element_type)) wrong_type(key, *find(key), kWanted);
  std::vector<int32_t> values(array->count);
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t value = integer_at(*array, i);
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max())
      refuse(key, fmt::format("element {} is {}, wanted i32", i, describe_element(*array, i)));
    values[i] = static_cast<int32_t>(value);
  }
  return values;
}

std::optional<std::vector<bool>> GgufMetadata::find_bools(std::string_view key) const {
  constexpr std::string_view kWanted = "array of bool";
  const GgufArray* array = find_array(key, kWanted);
  if (array == nullptr) return std::nullopt;
  if (array->element_type != GgufType::boolean) wrong_type(key, *find(key), kWanted);
  std::vector<bool> values(array->count);
  for (size_t i = 0; i < values.size(); ++i) values[i] = number_at<uint8_t>(array->numbers, i) != 0;
  return values;
}

}  // namespace strata
