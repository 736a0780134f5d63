#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace strata::jinja {

// Throws Error{data_corrupt} with line and reason for what is no Jinja, Error{unsupported} for
// tags, filters and tests that strata (or jinja2) does not have.
Program parse_template(std::string_view source);

}  // namespace strata::jinja
