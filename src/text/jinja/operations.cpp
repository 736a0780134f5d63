#include "text/jinja/operations.h"

#include <algorithm>

#include "text/jinja/unicode.h"

namespace strata::jinja {
namespace {

constexpr int kMaxValueDepth = 200;

// Guards the recursion over nested values.
int deeper(int depth) {
  if (depth >= kMaxValueDepth) fail_render("values are nested deeper than {}", kMaxValueDepth);
  return depth + 1;
}

bool equal_at(Runtime& runtime, const Value& a, const Value& b, int depth);

bool equal_items(Runtime& runtime, const std::vector<Value>& a, const std::vector<Value>& b,
                 int depth) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal_at(runtime, a[i], b[i], deeper(depth))) return false;
  }
  return true;
}

bool equal_at(Runtime& runtime, const Value& a, const Value& b, int depth) {
  runtime.charge(1);
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
    // long double holds every int64 and every double.
    const auto wide = [](const Value& v) {
      return v.is(Kind::real) ? static_cast<long double>(v.real)
                              : static_cast<long double>(v.as_integer());
    };
    return wide(a) == wide(b);
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::none:
    case Kind::undefined:
      return true;
    case Kind::string:
      if (a.text().size() != b.text().size()) return false;
      runtime.charge_reading(a);
      return a.text().bytes() == b.text().bytes();
    case Kind::list:
    case Kind::tuple:
      return equal_items(runtime, a.items(), b.items(), depth);
    case Kind::dict: {
      const auto& entries = a.dict().entries();
      if (entries.size() != b.dict().entries().size()) return false;
      return std::all_of(entries.begin(), entries.end(), [&](const auto& entry) {
        const Value* other = b.dict().find(entry.first);
        return other != nullptr && equal_at(runtime, entry.second, *other, deeper(depth));
      });
    }
    case Kind::range: {
      const RangeObject &x = a.range(), &y = b.range();
      return x.length == y.length &&
             (x.length == 0 || (x.start == y.start && (x.length == 1 || x.step == y.step)));
    }
    case Kind::view:
      return a.view().what == b.view().what && a.view().what != ViewKind::values &&
             equal_items(runtime, a.view().items, b.view().items, depth);
    default:
      return a.object == b.object;
  }
}

std::optional<int> compare_at(Runtime& runtime, const Value& a, const Value& b,
                              std::string_view operator_name, int depth) {
  runtime.charge(1);
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) {
      return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer() ? 1 : 0;
    }
    const auto wide = [](const Value& v) {
      return v.is(Kind::real) ? static_cast<long double>(v.real)
                              : static_cast<long double>(v.as_integer());
    };
    const long double x = wide(a), y = wide(b);
    if (x != x || y != y) return std::nullopt;
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.is(Kind::string) && b.is(Kind::string)) {
    runtime.charge_reading(a);
    // The order of UTF-8 bytes is the order of code points.
    const int order = a.text().bytes().compare(b.text().bytes());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_sequence() && a.kind == b.kind) {
    const auto &x = a.items(), &y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal_at(runtime, x[i], y[i], deeper(depth))) {
        return compare_at(runtime, x[i], y[i], operator_name, deeper(depth));
      }
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  fail_render("'{}' not supported between instances of '{}' and '{}'", operator_name, type_name(a),
              type_name(b));
}

Origin deep_origin_at(Runtime& runtime, const Value& value, int depth) {
  runtime.charge(1);
  Origin origin = value.origin;
  const auto add = [&](const Value& item) {
    if (origin == Origin::from_template) origin = deep_origin_at(runtime, item, deeper(depth));
  };
  if (value.is_sequence()) {
    for (const Value& item : value.items()) add(item);
  } else if (value.is(Kind::view)) {
    for (const Value& item : value.view().items) add(item);
  } else if (value.is(Kind::dict)) {
    for (const auto& [key, item] : value.dict().entries()) {
      add(key);
      add(item);
    }
  } else if (value.is(Kind::name_space)) {
    for (const auto& [key, item] : value.name_space().attributes.entries()) {
      add(key);
      add(item);
    }
  }
  return origin;
}

}  // namespace

std::string_view type_name(const Value& value) {
  switch (value.kind) {
    case Kind::absent:
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::view:
      return value.view().what == ViewKind::keys     ? "dict_keys"
             : value.view().what == ViewKind::values ? "dict_values"
                                                     : "dict_items";
    case Kind::range:
      return "range";
    case Kind::iterator:
      return value.iterator().type_name;
    case Kind::name_space:
      return "Namespace";
    case Kind::callable:
      return value.callable().type_name();
  }
  return "object";
}

void fail_undefined(const Value& value) {
  fail_render("{}", value.object == nullptr ? "a value is undefined" : value.undefined().message);
}

void require_defined(const Value& value) {
  if (value.is(Kind::undefined)) fail_undefined(value);
}

bool truthy(const Value& value) {
  switch (value.kind) {
    case Kind::absent:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean;
    case Kind::integer:
      return value.integer != 0;
    case Kind::real:
      return value.real != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::list:
    case Kind::tuple:
      return !value.items().empty();
    case Kind::dict:
      return !value.dict().entries().empty();
    case Kind::view:
      return !value.view().items.empty();
    case Kind::range:
      return value.range().length != 0;
    case Kind::iterator:
    case Kind::name_space:
    case Kind::callable:
      return true;
  }
  return true;
}

bool equals(Runtime& runtime, const Value& a, const Value& b) { return equal_at(runtime, a, b, 0); }

std::optional<int> compare(Runtime& runtime, const Value& a, const Value& b,
                           std::string_view operator_name) {
  return compare_at(runtime, a, b, operator_name, 0);
}

bool is_same_object(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::none:
    case Kind::undefined:
      return true;
    case Kind::boolean:
      return a.boolean == b.boolean;
    case Kind::integer:
      return a.integer == b.integer;
    case Kind::real:
      return a.real == b.real;
    case Kind::string:
      return a.text().bytes() == b.text().bytes();
    default:
      return a.object == b.object;
  }
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.kind) {
    case Kind::string:
      if (!item.is(Kind::string)) {
        fail_render("'in <string>' requires string as left operand, not {}", type_name(item));
      }
      runtime.charge(static_cast<int64_t>(container.text().size() / 64));
      return container.text().bytes().find(item.text().bytes()) != std::string::npos;
    case Kind::dict:
      runtime.charge_reading(item);
      return container.dict().find(item) != nullptr;
    default:
      break;
  }
  if (!is_iterable(container)) {
    fail_render("argument of type '{}' is not iterable", type_name(container));
  }
  Cursor cursor(runtime, container);
  Value element;
  while (cursor.next(element)) {
    if (equals(runtime, element, item)) return true;
  }
  return false;
}

bool has_length(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::range:
      return true;
    default:
      return false;
  }
}

int64_t length(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return 0;
    case Kind::string: {
      const std::string& bytes = value.text().bytes();
      if (value.string().ascii) return static_cast<int64_t>(bytes.size());
      return std::count_if(bytes.begin(), bytes.end(), [](char c) { return (c & 0xC0) != 0x80; });
    }
    case Kind::list:
    case Kind::tuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::dict:
      return static_cast<int64_t>(value.dict().entries().size());
    case Kind::view:
      return static_cast<int64_t>(value.view().items.size());
    case Kind::range:
      return value.range().length;
    default:
      fail_render("object of type '{}' has no len()", type_name(value));
  }
}

bool is_iterable(const Value& value) { return has_length(value) || value.is(Kind::iterator); }

Cursor::Cursor(Runtime& runtime, const Value& iterable) : runtime_(runtime), iterable_(iterable) {
  if (!is_iterable(iterable)) fail_render("'{}' object is not iterable", type_name(iterable));
}

bool Cursor::next(Value& item) {
  runtime_.charge(1);
  const size_t i = position_++;
  const auto take = [&](const std::vector<Value>& items) {
    if (i >= items.size()) return false;
    item = items[i];
    return true;
  };
  switch (iterable_.kind) {
    case Kind::list:
    case Kind::tuple:
      return take(iterable_.items());
    case Kind::view:
      return take(iterable_.view().items);
    case Kind::dict:
      if (i >= iterable_.dict().entries().size()) return false;
      item = iterable_.dict().entries()[i].first;
      return true;
    case Kind::string: {
      const MarkedText& text = iterable_.text();
      if (i >= text.size()) return false;
      const size_t end = i + utf8_length(text.bytes()[i]);
      item = runtime_.string(text.slice(i, end));
      position_ = end;
      return true;
    }
    case Kind::range: {
      const RangeObject& range = iterable_.range();
      if (static_cast<int64_t>(i) >= range.length) return false;
      item = int_value(range.start + static_cast<int64_t>(i) * range.step, iterable_.origin);
      return true;
    }
    case Kind::iterator: {
      const Runtime::Reading reading(runtime_);
      return iterable_.iterator().next(item);
    }
    default:
      return false;
  }
}

std::vector<Value> collect(Runtime& runtime, const Value& iterable) {
  std::vector<Value> items;
  Cursor cursor(runtime, iterable);
  Value item;
  while (cursor.next(item)) items.push_back(item);
  return items;
}

Origin deep_origin(Runtime& runtime, const Value& value) {
  return deep_origin_at(runtime, value, 0);
}

Value call(Runtime& runtime, const Value& callee, Arguments& arguments) {
  require_defined(callee);
  if (!callee.is(Kind::callable)) {
    fail_render("'{}' object is not callable", type_name(callee));
  }
  return callee.callable().call(runtime, arguments);
}

}  // namespace strata::jinja
