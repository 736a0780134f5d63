#pragma once

#include <string>
#include <string_view>

namespace strata {

// Text from a file as it may stand in a one-line message: in single quotes, control characters,
// quotes, backslashes and ill-formed UTF-8 as \xNN, cut after about 80 bytes with "...".
std::string in_quotes(std::string_view text);

}  // namespace strata
