#pragma once

#include "text/jinja/builtin.h"
#include "text/jinja/runtime.h"

// A formatted text is the template's only if format and arguments all are.
namespace strata::jinja {

// How a number or text is laid out: the common part of both mini-languages.
struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  // < > ^ = or none
  char sign = '-';    // - + or blank
  bool alternate = false;
  char group = '\0';  // , or _ between thousands
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};
std::string format_integer(int64_t value, const FormatSpec& spec);
std::string format_real(double value, const FormatSpec& spec);
std::string pad_text(Runtime& runtime, std::string text, const FormatSpec& spec);

// "..." % values: %s %r %d %i %u %x %X %o %c %e %f %g %% with flags, width and precision.
Value format_percent(Runtime& runtime, const Value& format, const Value& values);
// "...".format(...): {} {0} {name} {name.attribute} {0[key]} with !r/!s and format specs for
// strings, integers and floats.
Value format_method(Runtime& runtime, const Bound& arguments);

}  // namespace strata::jinja
