#pragma once

#include <string>
#include <string_view>

namespace strata::jinja {

// The text of a string literal without its quotes: Python's escapes \n \t \\ \' \" \xhh \uhhhh
// \Uhhhhhhhh \ooo and so on; a backslash before a line break joins the lines; unknown escapes stay
// as they are. Throws Error{data_corrupt} with the line for broken ones and lone surrogates,
// Error{unsupported} for \N{name}.
std::string unescape_string(std::string_view body, int line);

}  // namespace strata::jinja
