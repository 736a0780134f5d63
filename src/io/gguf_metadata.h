#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace strata {

// Value types of GGUF metadata, with their numbers in the file.
enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
std::string_view gguf_value_type_name(GgufType type);  // "u32", "string"
// Bytes of one number or boolean in the file; 0 for string and array.
int gguf_value_bytes(GgufType type);

// Many short strings in one buffer: a vocabulary of 262,144 tokens costs two allocations.
class GgufStrings {
 public:
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t i) const {
    const uint64_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }
  void reserve(size_t count) { ends_.reserve(count); }
  void add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(bytes_.size());
  }

 private:
  std::string bytes_;
  std::vector<uint64_t> ends_;
};

// Elements of one type. Numbers and booleans stay as the file's little-endian bytes. Arrays of
// arrays are checked and counted when they are read but their content is not kept: no key that
// strata knows has one.
struct GgufArray {
  GgufType element_type = GgufType::u8;
  uint64_t count = 0;
  std::vector<std::byte> numbers;
  GgufStrings strings;
};

// u8..u64 are held as uint64_t, i8..i64 as int64_t, f32 and f64 as double.
struct GgufValue {
  GgufType type = GgufType::u8;
  std::variant<uint64_t, int64_t, double, bool, std::string, GgufArray> data;

  static GgufValue of_u32(uint32_t value);
  static GgufValue of_i32(int32_t value);
  static GgufValue of_u64(uint64_t value);
  static GgufValue of_f32(float value);
  static GgufValue of_bool(bool value);
  static GgufValue of_string(std::string value);
  static GgufValue of_strings(const std::vector<std::string>& values);
  static GgufValue of_f32s(const std::vector<float>& values);
  static GgufValue of_i32s(const std::vector<int32_t>& values);
};

// One line for people: "u32 8", "string 'llama'", "array of 3 strings: 'a', 'b', ...".
std::string describe(const GgufValue& value);

// Typed access to the metadata of a GGUF file. `find_...` gives nothing when the key is absent,
// `get_...` then throws data_corrupt. Both throw data_corrupt when the value has another type or
// does not fit, naming file, key, got and wanted. Integers of any width and sign are accepted where
// the value fits; floats may be f32 or f64 (rounded to f32); integers are not taken for floats.
class GgufMetadata {
 public:
  explicit GgufMetadata(std::string file = {}) : file_(std::move(file)) {}

  const std::string& file() const { return file_; }
  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }
  // False: the key was there already (and keeps its value).
  bool insert(std::string key, GgufValue value);

  const GgufValue* find(std::string_view key) const;  // nullptr: absent
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  std::optional<uint64_t> find_u64(std::string_view key) const;
  std::optional<uint32_t> find_u32(std::string_view key) const;
  std::optional<int32_t> find_i32(std::string_view key) const;
  std::optional<float> find_f32(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;
  const GgufStrings* find_strings(std::string_view key) const;
  std::optional<std::vector<float>> find_f32s(std::string_view key) const;
  std::optional<std::vector<int32_t>> find_i32s(std::string_view key) const;
  std::optional<std::vector<bool>> find_bools(std::string_view key) const;

  uint64_t get_u64(std::string_view key) const { return need(key, "u64", find_u64(key)); }
  uint32_t get_u32(std::string_view key) const { return need(key, "u32", find_u32(key)); }
  float get_f32(std::string_view key) const { return need(key, "f32", find_f32(key)); }
  bool get_bool(std::string_view key) const { return need(key, "bool", find_bool(key)); }
  std::string_view get_string(std::string_view key) const {
    return need(key, "string", find_string(key));
  }
  const GgufStrings& get_strings(std::string_view key) const;
  std::vector<float> get_f32s(std::string_view key) const {
    return need(key, "array of f32", find_f32s(key));
  }
  std::vector<int32_t> get_i32s(std::string_view key) const {
    return need(key, "array of i32", find_i32s(key));
  }

  // Throws data_corrupt "FILE: metadata key 'KEY': PROBLEM", for checks of the caller's own
  // ("is 0, wanted at least 1").
  [[noreturn]] void refuse(std::string_view key, std::string_view problem) const;

 private:
  [[noreturn]] void missing(std::string_view key, std::string_view wanted) const;
  [[noreturn]] void wrong_type(std::string_view key, const GgufValue& got,
                               std::string_view wanted) const;
  const GgufArray* find_array(std::string_view key, std::string_view wanted) const;
  std::optional<int64_t> find_integer(std::string_view key, std::string_view wanted, int64_t least,
                                      int64_t most) const;
  template <typename T>
  T need(std::string_view key, std::string_view wanted, std::optional<T> value) const {
    if (!value) missing(key, wanted);
    return *std::move(value);
  }

  std::string file_;
  std::map<std::string, GgufValue, std::less<>> values_;
};

}  // namespace strata
