#pragma once

#include <cstdint>

namespace strata {

// Bytes of one core's second-level cache; 512 KiB where the system does not say.
int64_t second_level_cache_bytes();

}  // namespace strata
