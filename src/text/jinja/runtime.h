#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/jinja/value.h"

namespace strata::jinja {

// What one render may use. A template that needs more fails with resource_exhausted-like words,
// but as invalid_argument: it is the template or the request that asks for too much.
struct Limits {
  int64_t steps = 20'000'000;         // evaluated nodes, loop turns, items touched
  int64_t bytes_built = 256LL << 20;  // of all strings and objects made on the way
  size_t output_bytes = size_t{64} << 20;
  int depth = 400;        // nested expressions, statements and macro calls
  int value_depth = 200;  // nested lists and dicts when printed or compared
};

// Makes values, and counts what they cost. One per render.
class Runtime {
 public:
  explicit Runtime(const Limits& limits, int64_t unix_time)
      : limits_(limits), unix_time_(unix_time) {}

  const Limits& limits() const { return limits_; }
  int64_t unix_time() const { return unix_time_; }

  // Throw when the budget is used up.
  void charge(int64_t steps) {
    steps_ += steps;
    if (steps_ > limits_.steps) fail_budget("steps");
  }
  void charge_bytes(size_t bytes) {
    const auto limit = static_cast<size_t>(limits_.bytes_built);
    if (bytes > limit) fail_budget("bytes of text and objects");
    bytes_ += static_cast<int64_t>(bytes);
    if (bytes_ > limits_.bytes_built) fail_budget("bytes of text and objects");
  }
  // For work that reads a text without making one.
  void charge_reading(const Value& value) {
    if (value.is(Kind::string)) charge(static_cast<int64_t>(value.text().size() / 64));
  }
  void charge_reading(const std::vector<Value>& values) {
    for (const Value& value : values) charge_reading(value);
  }

  // Guards iterators over iterators, which a loop can stack without end.
  class Reading {
   public:
    explicit Reading(Runtime& runtime);
    ~Reading() { --runtime_.readings_; }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    Runtime& runtime_;
  };

  Value string(MarkedText text);
  Value string(std::string bytes, Origin origin) {
    return string(MarkedText(std::move(bytes), origin));
  }
  Value list(std::vector<Value> items, Origin origin = Origin::from_template);
  Value tuple(std::vector<Value> items, Origin origin = Origin::from_template);
  Value range(const RangeObject& range, Origin origin);
  Value view(ViewKind what, std::vector<Value> items, Origin origin);
  Value iterator(std::function<bool(Value&)> next, Origin origin,
                 std::string type_name = "generator");
  Value undefined(std::string message);
  Value object(Kind kind, Object* object, Origin origin = Origin::from_template);
  Value unsafe_attribute(const Value& owner, std::string_view name);

  Heap& heap() { return heap_; }

 private:
  [[noreturn]] static void fail_budget(std::string_view what);

  Limits limits_;
  int64_t unix_time_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  int readings_ = 0;
  Heap heap_;
};

// A fault while rendering: Error{invalid_argument}. The interpreter adds the line.
template <typename... Args>
[[noreturn]] void fail_render(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace strata::jinja
