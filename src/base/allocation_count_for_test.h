#pragma once

#include <cstdint>

namespace strata {

// Calls of operator new since the program began, on any thread (the test program replaces it).
int64_t allocation_count();

}  // namespace strata
