#pragma once

#include "base/json.h"
#include "text/jinja/runtime.h"

namespace strata::jinja {

// A request's JSON as a value of the user's origin. Throws Error{invalid_argument} for integers
// beyond 64 bits and text that is no UTF-8.
Value json_value(Runtime& runtime, const OrderedJson& json);

}  // namespace strata::jinja
