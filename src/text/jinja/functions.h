#pragma once

#include <string>

#include "base/error.h"

namespace strata::jinja {

// raise_exception(message): the template refuses the request in its own words.
class RaisedByTemplate : public Error {
 public:
  explicit RaisedByTemplate(const std::string& message)
      : Error(ErrorCode::invalid_argument, message) {}
};

// datetime.strftime of a moment in UTC, as C's "C" locale has it; unknown directives stay.
std::string format_time(int64_t unix_time, std::string_view format);

}  // namespace strata::jinja
