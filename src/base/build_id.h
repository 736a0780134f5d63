#pragma once

#include <string>

namespace strata {

// What tells this program's binary from every other: the identifier the linker computed from its
// content (the note NT_GNU_BUILD_ID), in hexadecimal. "none" in a binary linked without one.
std::string build_id();

}  // namespace strata
