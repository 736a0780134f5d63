#pragma once

#include <cstdint>

namespace strata::testing {

// How many bytes a process holds for each byte that the program touches: ThreadSanitizer keeps four
// of its own beside it.
#ifdef __SANITIZE_THREAD__
inline constexpr int64_t kHeldPerByte = 5;
#else
inline constexpr int64_t kHeldPerByte = 1;
#endif

}  // namespace strata::testing
