#pragma once

#include <cstdint>

namespace strata {

// CPU time that all threads of this process have used.
double process_cpu_seconds();

// Bytes of this process in memory (RSS); 0 where the system does not say.
int64_t resident_bytes();

}  // namespace strata
