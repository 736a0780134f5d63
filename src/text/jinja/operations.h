#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

// Python's operations on values. All throw Error{invalid_argument} with words close to Python's
// where Python raises.
namespace strata::jinja {

std::string_view type_name(const Value& value);
[[noreturn]] void fail_undefined(const Value& value);
void require_defined(const Value& value);

bool truthy(const Value& value);
// `==`. Never throws but for nesting that is too deep.
bool equals(Runtime& runtime, const Value& a, const Value& b);
// Less, equal, greater: -1, 0, 1; nullopt: NaN is involved. Throws for values without an order.
std::optional<int> compare(Runtime& runtime, const Value& a, const Value& b,
                           std::string_view operator_name = "<");
bool is_same_object(const Value& a, const Value& b);  // `is`
bool contains(Runtime& runtime, const Value& container, const Value& item);

bool has_length(const Value& value);
int64_t length(const Value& value);
bool is_iterable(const Value& value);

// Walks an iterable; reads an iterator to its end only as far as asked.
class Cursor {
 public:
  Cursor(Runtime& runtime, const Value& iterable);
  bool next(Value& item);

 private:
  Runtime& runtime_;
  Value iterable_;
  size_t position_ = 0;
};
std::vector<Value> collect(Runtime& runtime, const Value& iterable);

// obj.name: attribute first, then item. obj[key]: item first, then attribute. Undefined if neither.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
Value get_item(Runtime& runtime, const Value& object, const Value& key);
// Only the attributes: methods and the few data attributes; absent if there is none.
Value find_attribute(Runtime& runtime, const Value& object, std::string_view name);
// obj[start:stop:step]; absent parts are Kind::none.
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step);

enum class BinaryOperator : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power
};
Value apply_binary(Runtime& runtime, BinaryOperator which, const Value& a, const Value& b);
Value apply_sign(const Value& value, bool negative);

// str(value) with the origin of each part kept where the value is a string.
MarkedText to_text(Runtime& runtime, const Value& value);
std::string repr(Runtime& runtime, const Value& value);
std::string quote(std::string_view text);  // repr of a string
std::string real_repr(double value);
// user if the request had a part anywhere in the value.
Origin deep_origin(Runtime& runtime, const Value& value);

Value call(Runtime& runtime, const Value& callee, Arguments& arguments);

}  // namespace strata::jinja
