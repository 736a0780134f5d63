#include <algorithm>
#include <array>

#include "text/jinja/builtin.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

// obj.name, obj[key] and obj[a:b:c], in the order in which jinja2's sandbox looks.
namespace strata::jinja {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Attributes that every Python object of these types has and the sandbox hides.
bool is_python_internal(std::string_view name) {
  return is_one_of(
      name, {"__class__",        "__delattr__", "__dict__",    "__dir__",           "__doc__",
             "__eq__",           "__format__",  "__ge__",      "__getattribute__",  "__getstate__",
             "__gt__",           "__hash__",    "__init__",    "__init_subclass__", "__le__",
             "__lt__",           "__module__",  "__ne__",      "__new__",           "__reduce__",
             "__reduce_ex__",    "__repr__",    "__setattr__", "__sizeof__",        "__str__",
             "__subclasshook__", "__len__",     "__getitem__", "__contains__",      "__iter__",
             "__add__",          "__call__",    "__self__",    "__globals__",       "__code__",
             "__func__"});
}

bool changes_container(const Value& object, std::string_view name) {
  if (object.is(Kind::list)) {
    return is_one_of(name,
                     {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  }
  if (object.is(Kind::dict)) {
    return is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"});
  }
  return false;
}

std::string describe_owner(const Value& object) {
  if (object.is(Kind::none)) return "None";
  return fmt::format("{} object", type_name(object));
}

Value missing_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.undefined(
      fmt::format("'{}' has no attribute {}", describe_owner(object), quote(name)));
}

// Python's rule for an index: from the end if negative; nullopt if outside.
std::optional<size_t> checked_index(int64_t index, int64_t size) {
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return static_cast<size_t>(index);
}

// obj[key] in the strict sense; absent: TypeError or LookupError in Python.
Value subscript(Runtime& runtime, const Value& object, const Value& key) {
  switch (object.kind) {
    case Kind::dict: {
      if (key.is(Kind::list) || key.is(Kind::dict)) return absent_value();
      runtime.charge_reading(key);
      const Value* found = object.dict().find(key);
      return found == nullptr ? absent_value() : *found;
    }
    case Kind::list:
    case Kind::tuple: {
      if (!key.is_integral()) return absent_value();
      const auto index = checked_index(key.as_integer(), length(object));
      return index ? object.items()[*index] : absent_value();
    }
    case Kind::range: {
      if (!key.is_integral()) return absent_value();
      const auto index = checked_index(key.as_integer(), length(object));
      if (!index) return absent_value();
      const RangeObject& range = object.range();
      return int_value(range.start + static_cast<int64_t>(*index) * range.step, object.origin);
    }
    case Kind::string: {
      if (!key.is_integral()) return absent_value();
      runtime.charge(static_cast<int64_t>(object.text().size() / 64));
      const auto index = checked_index(key.as_integer(), length(object));
      if (!index) return absent_value();
      const MarkedText& text = object.text();
      if (object.string().ascii) return runtime.string(text.slice(*index, *index + 1));
      size_t begin = 0;
      for (size_t i = 0; i < *index; ++i) begin += utf8_length(text.bytes()[begin]);
      return runtime.string(text.slice(begin, begin + utf8_length(text.bytes()[begin])));
    }
    default:
      return absent_value();
  }
}

// base + count * step; ends beyond 64 bits wrap, they are only shown.
int64_t wrapped(int64_t base, int64_t count, int64_t step) {
  return static_cast<int64_t>(static_cast<uint64_t>(base) +
                              static_cast<uint64_t>(count) * static_cast<uint64_t>(step));
}

struct SliceBounds {
  int64_t start, stop, step, count;
};

int64_t slice_index(const Value& value, int64_t missing, int64_t size, bool backwards) {
  if (value.is(Kind::none)) return missing;
  if (!value.is_integral()) {
    require_defined(value);
    fail_render("slice indices must be integers or None or have an __index__ method");
  }
  int64_t index = value.as_integer();
  if (index < 0) {
    index += size;
    if (index < 0) return backwards ? -1 : 0;
    return index;
  }
  return index >= size ? (backwards ? size - 1 : size) : index;
}

SliceBounds slice_bounds(const Value& start, const Value& stop, const Value& step, int64_t size) {
  SliceBounds b{0, 0, 1, 0};
  if (!step.is(Kind::none)) {
    if (!step.is_integral()) {
      require_defined(step);
      fail_render("slice indices must be integers or None or have an __index__ method");
    }
    b.step = step.as_integer();
    if (b.step == 0) fail_render("slice step cannot be zero");
    // Steps beyond the size all mean "the first only"; clamping keeps the arithmetic in range.
    b.step = std::clamp(b.step, -(size + 1), size + 1);
  }
  const bool backwards = b.step < 0;
  b.start = slice_index(start, backwards ? size - 1 : 0, size, backwards);
  b.stop = slice_index(stop, backwards ? -1 : size, size, backwards);
  const int64_t span = backwards ? b.start - b.stop : b.stop - b.start;
  const int64_t stride = backwards ? -b.step : b.step;
  b.count = span > 0 ? (span + stride - 1) / stride : 0;
  return b;
}

}  // namespace

Value find_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (is_python_internal(name) || changes_container(object, name)) {
    return runtime.unsafe_attribute(object, name);
  }
  if (object.is(Kind::name_space)) {
    const Value* found = object.name_space().attributes.find(name);
    return found == nullptr ? absent_value() : *found;
  }
  if (object.is(Kind::callable)) return object.callable().attribute(runtime, name);
  if (object.is(Kind::tuple) && static_cast<const ListObject*>(object.object)->is_group) {
    if (name == "grouper") return object.items()[0];
    if (name == "list") return object.items()[1];
  }
  if (const Builtin* method = find_method(object.kind, name)) {
    return make_method(runtime, *method, object);
  }
  if (is_known_unsupported_method(object.kind, name)) {
    fail(ErrorCode::unsupported, "the method {}.{} is not supported", type_name(object), name);
  }
  return absent_value();
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  require_defined(object);
  const Value attribute = find_attribute(runtime, object, name);
  if (!attribute.is(Kind::absent)) return attribute;
  if (object.is(Kind::dict)) {
    if (const Value* found = object.dict().find(name)) return *found;
  }
  return missing_attribute(runtime, object, name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  require_defined(object);
  const Value item = subscript(runtime, object, key);
  if (!item.is(Kind::absent)) return item;
  if (key.is(Kind::string)) {
    const std::string& name = key.text().bytes();
    const Value attribute = find_attribute(runtime, object, name);
    return attribute.is(Kind::absent) ? missing_attribute(runtime, object, name) : attribute;
  }
  return runtime.undefined(
      fmt::format("{} has no element {}", describe_owner(object), repr(runtime, key)));
}

Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step) {
  require_defined(object);
  switch (object.kind) {
    case Kind::list:
    case Kind::tuple: {
      const auto& items = object.items();
      const SliceBounds b = slice_bounds(start, stop, step, static_cast<int64_t>(items.size()));
      std::vector<Value> part;
      for (int64_t i = 0; i < b.count; ++i) {
        part.push_back(items[static_cast<size_t>(b.start + i * b.step)]);
      }
      return object.is(Kind::list) ? runtime.list(std::move(part), object.origin)
                                   : runtime.tuple(std::move(part), object.origin);
    }
    case Kind::range: {
      const RangeObject& range = object.range();
      const SliceBounds b = slice_bounds(start, stop, step, range.length);
      RangeObject part;
      part.start = wrapped(range.start, b.start, range.step);
      part.stop = wrapped(range.start, b.stop, range.step);
      part.step = wrapped(0, b.step, range.step);
      part.length = b.count;
      return runtime.range(part, object.origin);
    }
    case Kind::string: {
      const MarkedText& text = object.text();
      runtime.charge(static_cast<int64_t>(text.size() / 16));
      if (object.string().ascii) {
        const SliceBounds b = slice_bounds(start, stop, step, static_cast<int64_t>(text.size()));
        if (b.step == 1) {
          const auto begin = static_cast<size_t>(b.start);
          return runtime.string(text.slice(begin, begin + static_cast<size_t>(b.count)));
        }
      }
      const std::vector<size_t> offsets = code_point_offsets(text.bytes());
      const SliceBounds b =
          slice_bounds(start, stop, step, static_cast<int64_t>(offsets.size()) - 1);
      MarkedText part({}, text.overall_origin());
      if (b.step == 1) {
        part = text.slice(offsets[static_cast<size_t>(b.start)],
                          offsets[static_cast<size_t>(b.start + b.count)]);
      } else {
        for (int64_t i = 0; i < b.count; ++i) {
          const auto at = static_cast<size_t>(b.start + i * b.step);
          part.append_slice(text, offsets[at], offsets[at + 1]);
        }
      }
      return runtime.string(std::move(part));
    }
    default:
      // A dict takes no slice, nothing else can be subscripted: jinja2 answers undefined.
      return runtime.undefined(fmt::format("{} has no element slice({}, {}, {})",
                                           describe_owner(object), repr(runtime, start),
                                           repr(runtime, stop), repr(runtime, step)));
  }
}

}  // namespace strata::jinja
