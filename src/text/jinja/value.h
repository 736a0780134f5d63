#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/marked_text.h"

namespace strata::jinja {

class Runtime;
struct Arguments;

enum class Kind : uint8_t {
  absent,  // an optional parameter that was not given; never seen by a template
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  view,      // dict.keys() and its like
  range,     // range()
  iterator,  // what map, select and other lazy filters give: can be read once
  name_space,
  callable,  // macros, methods, functions and the `loop` variable
};

// Base of everything a Value points to. Owned by a Heap, freed with it; cycles are harmless.
struct Object {
  virtual ~Object() = default;
};

struct StringObject;
struct ListObject;
struct DictObject;
struct ViewObject;
struct RangeObject;
struct IteratorObject;
struct NamespaceObject;
struct CallableObject;
struct UndefinedObject;

// A Python value as templates see it. Trivially copyable; containers and text are shared and, but
// for namespaces and iterators, never change. `origin` says whether the request had a part
// in it (strings know it per byte instead).
struct Value {
  Kind kind = Kind::undefined;
  Origin origin = Origin::from_template;
  union {
    bool boolean;
    int64_t integer;
    double real;
    Object* object = nullptr;
  };

  bool is(Kind k) const { return kind == k; }
  bool is_sequence() const { return kind == Kind::list || kind == Kind::tuple; }
  // bool is a kind of int in Python.
  bool is_integral() const { return kind == Kind::integer || kind == Kind::boolean; }
  bool is_number() const { return is_integral() || kind == Kind::real; }
  int64_t as_integer() const { return kind == Kind::boolean ? int64_t{boolean} : integer; }
  double as_real() const { return kind == Kind::real ? real : static_cast<double>(as_integer()); }

  const StringObject& string() const;
  const MarkedText& text() const;
  const std::vector<Value>& items() const;  // list or tuple
  const DictObject& dict() const;
  const ViewObject& view() const;
  const RangeObject& range() const;
  const UndefinedObject& undefined() const;
  // The kinds that change while a template runs.
  IteratorObject& iterator() const;
  NamespaceObject& name_space() const;
  CallableObject& callable() const;
};

Value absent_value();
Value none_value();
Value bool_value(bool value, Origin origin = Origin::from_template);
Value int_value(int64_t value, Origin origin = Origin::from_template);
Value real_value(double value, Origin origin = Origin::from_template);

struct StringObject : Object {
  explicit StringObject(MarkedText content);
  MarkedText text;
  bool ascii;
};

struct ListObject : Object {
  explicit ListObject(std::vector<Value> content) : items(std::move(content)) {}
  std::vector<Value> items;
  bool is_group = false;  // groupby's pairs answer to .grouper and .list
};

// Keeps the order of insertion. Keys are hashable values; 1, 1.0 and true are one key.
struct DictObject : Object {
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Adds a key or replaces the value of one that is there.
  void set(const Value& key, const Value& value);
  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }

 private:
  size_t position(const Value& key) const;
  size_t position(std::string_view key) const;
  size_t indexed_position(const std::string& hashed) const;

  std::vector<std::pair<Value, Value>> entries_;
  std::unordered_map<std::string, size_t> index_;  // hash_key to position, for large dicts only
};

enum class ViewKind : uint8_t { keys, values, items };
struct ViewObject : Object {
  ViewKind what = ViewKind::keys;
  std::vector<Value> items;
};

struct RangeObject : Object {
  int64_t start = 0, stop = 0, step = 1, length = 0;
};

struct IteratorObject : Object {
  // Puts the next item into `item`, or returns false. Once false it stays false.
  std::function<bool(Value& item)> next;
  std::string type_name = "generator";
};

struct NamespaceObject : Object {
  DictObject attributes;
};

struct UndefinedObject : Object {
  std::string message;
};

struct CallableObject : Object {
  virtual Value call(Runtime& runtime, Arguments& arguments) = 0;
  virtual std::string describe() const = 0;  // how it prints
  // An attribute of the callable (loop.index, a macro's name), or an absent value.
  virtual Value attribute(Runtime& runtime, std::string_view name);
  virtual std::string_view type_name() const { return "function"; }
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  // The request's as soon as one of the names came out of its data (f(**message)).
  Origin names_origin = Origin::from_template;
};

// A canonical spelling of a hashable value: equal values, equal keys. Throws for lists and dicts.
// `depth` counts the tuples around.
std::string hash_key(const Value& value, int depth = 0);

// Owns the objects of one template or one render.
class Heap {
 public:
  template <typename T, typename... Args>
  T* make(Args&&... args) {
    auto object = std::make_unique<T>(std::forward<Args>(args)...);
    T* raw = object.get();
    objects_.push_back(std::move(object));
    return raw;
  }

 private:
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace strata::jinja
