#include "base/json.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace strata {
namespace {

// Reads text and counts what was read, so that the events below can say where they are: the library
// tells positions only for its own errors.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  size_t* count_;
};

// A key as an error message shows it: short, whole characters.
std::string shown(std::string_view key) {
  constexpr size_t kMost = 64;
  if (key.size() <= kMost) return std::string(key);
  return std::string(clipped_utf8(key, kMost)) + "...";
}

// Builds a value from the library's events. The library itself keeps no recursion on the text's
// nesting; limits and duplicate keys are checked here, before anything is allocated for them.
template <typename Value>
class Builder : public nlohmann::json_sax<Value> {
 public:
  using typename nlohmann::json_sax<Value>::number_integer_t;
  using typename nlohmann::json_sax<Value>::number_unsigned_t;
  using typename nlohmann::json_sax<Value>::number_float_t;
  using typename nlohmann::json_sax<Value>::string_t;
  using typename nlohmann::json_sax<Value>::binary_t;

  Builder(const JsonLimits& limits, const size_t& offset) : limits_(limits), offset_(offset) {}

  Value take() { return std::move(root_); }

  bool null() override { return add(Value(nullptr)); }
  bool boolean(bool v) override { return add(Value(v)); }
  bool number_integer(number_integer_t v) override { return add(Value(v)); }
  bool number_unsigned(number_unsigned_t v) override { return add(Value(v)); }
  bool number_float(number_float_t v, const string_t&) override { return add(Value(v)); }
  bool string(string_t& v) override { return add(Value(std::move(v))); }
  bool binary(binary_t&) override { return false; }  // not in text
  bool start_object(std::size_t) override { return open(Value::object()); }
  bool start_array(std::size_t) override { return open(Value::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& v) override {
    std::unordered_set<string_t>& keys = open_.back().keys;
    if (keys.size() >= limits_.max_keys_per_object) {
      refuse(fmt::format("an object has more than {} keys", limits_.max_keys_per_object));
    }
    if (!keys.insert(v).second) refuse(fmt::format("key \"{}\" appears twice", shown(v)));
    key_ = std::move(v);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    // `position` counts the offending byte too.
    const size_t offset = position == 0 ? 0 : position - 1;
    if (dynamic_cast<const nlohmann::detail::out_of_range*>(&e) != nullptr) {
      refuse("a number is too large for a double", offset);
    }
    // "[json...101] parse error at line 1, column 2: syntax error while parsing value - invalid
    // literal; last read: '...'": keep the reason, not the library's name nor the text (which may
    // be megabytes).
    std::string reason = e.what();
    const size_t start = reason.find("syntax error");
    if (start != std::string::npos) reason.erase(0, start);
    reason.resize(std::min(reason.find("; last read: '"), reason.size()));
    refuse(reason, offset);
    return false;
  }

 private:
  struct Open {
    Value* value;
    std::unordered_set<string_t> keys;  // of an object
  };

  [[noreturn]] void refuse(std::string_view reason, size_t offset) const {
    fail(ErrorCode::invalid_argument, "JSON: {} at byte {}", reason, offset);
  }
  [[noreturn]] void refuse(std::string_view reason) const {
    refuse(reason, offset_ == 0 ? 0 : offset_ - 1);
  }

  // Where the value went: elements do not move while one of them is open.
  Value* place(Value&& v) {
    if (++values_ > limits_.max_values) {
      refuse(fmt::format("more than {} values", limits_.max_values));
    }
    if (open_.empty()) {
      root_ = std::move(v);
      return &root_;
    }
    Value& parent = *open_.back().value;
    if (parent.is_array()) {
      auto& items = parent.template get_ref<typename Value::array_t&>();
      items.push_back(std::move(v));
      return &items.back();
    }
    auto& members = parent.template get_ref<typename Value::object_t&>();
    if constexpr (std::is_same_v<Value, OrderedJson>) {
      // The map's own emplace looks through all members; key() has done that in constant time.
      members.emplace_back(std::move(key_), std::move(v));
      return &members.back().second;
    } else {
      return &members.emplace(std::move(key_), std::move(v)).first->second;
    }
  }

  bool add(Value&& v) {
    place(std::move(v));
    return true;
  }

  bool open(Value&& v) {
    if (open_.size() >= static_cast<size_t>(std::max(limits_.max_depth, 0))) {
      refuse(fmt::format("nesting deeper than {}", limits_.max_depth));
    }
    Value* placed = place(std::move(v));
    open_.push_back({placed, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  JsonLimits limits_;
  const size_t& offset_;  // bytes read so far
  Value root_;
  std::vector<Open> open_;
  string_t key_;
  size_t values_ = 0;
};

template <typename Value>
Value parse(std::string_view text, const JsonLimits& limits) {
  // The library takes a zero byte for the end of the text.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    fail(ErrorCode::invalid_argument, "JSON: a zero byte at byte {}", zero);
  }
  size_t offset = 0;
  Builder<Value> builder(limits, offset);
  const bool whole =
      Value::sax_parse(CountingIterator(text.data(), &offset),
                       CountingIterator(text.data() + text.size(), &offset), &builder);
  STRATA_ASSERT(whole);  // each refusal throws
  return builder.take();
}

}  // namespace

Json parse_json(std::string_view text, const JsonLimits& limits) {
  return parse<Json>(text, limits);
}

OrderedJson parse_ordered_json(std::string_view text, const JsonLimits& limits) {
  return parse<OrderedJson>(text, limits);
}

std::string to_json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json_text(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace strata
