#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace strata::jinja {

// The arguments of a built-in by position of the parameter; those not given are Kind::absent.
struct Bound {
  std::vector<Value> values;
  std::vector<Value> rest;                                // what a `*` parameter takes
  std::vector<std::pair<std::string, Value>> rest_named;  // what a `**` parameter takes
  Origin names_origin = Origin::from_template;            // of the names of rest_named

  const Value& operator[](size_t i) const { return values[i]; }
  bool has(size_t i) const { return !values[i].is(Kind::absent); }
  // Not given and None mean the same to many parameters.
  bool given(size_t i) const { return has(i) && !values[i].is(Kind::none); }
};

// A filter, test, method or function. `parameters` lists names, optional ones with `?`, then `*`
// and `**` for the rest; those before a `/` cannot be given by name: "self / sep? maxsplit?".
struct Builtin {
  std::string_view name;
  std::string_view parameters;
  Value (*run)(Runtime& runtime, const Bound& arguments);
};

// Throws as Python's TypeError for missing, surplus and unknown arguments. `offset` positional
// arguments (the value of a filter, the self of a method) are in front already.
Bound bind(const Builtin& builtin, const Arguments& arguments);

// Binds, charges for the texts that will be read, and runs.
Value run_builtin(Runtime& runtime, const Builtin& builtin, const Arguments& arguments);

const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
const Builtin* find_method(Kind kind, std::string_view name);
// A name jinja2 has and strata does not (so that the message can say so).
bool is_known_unsupported_method(Kind kind, std::string_view name);

// Runs a filter or test by name for map, select and their like; throws for unknown names.
Value call_filter(Runtime& runtime, std::string_view name, const Arguments& arguments);
bool call_test(Runtime& runtime, std::string_view name, const Arguments& arguments);

// Typed reading of arguments; throw as Python's TypeError.
int64_t integer_argument(const Value& value, std::string_view what);
const MarkedText& text_argument(const Value& value, std::string_view what);

// A function or a bound method as a value.
Value make_callable(Runtime& runtime, const Builtin& builtin);
Value make_method(Runtime& runtime, const Builtin& builtin, const Value& self);

}  // namespace strata::jinja
