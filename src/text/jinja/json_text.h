#pragma once

#include <string>

#include "text/jinja/runtime.h"

namespace strata::jinja {

// The arguments of Python's json.dumps that templates use.
struct JsonStyle {
  bool ascii = false;   // escape everything beyond ASCII
  bool pretty = false;  // one item a line
  bool sort_keys = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// json.dumps(value). Throws for values that JSON does not have (undefined, iterators, macros).
std::string json_text(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace strata::jinja
