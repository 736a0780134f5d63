#include "base/cache_size.h"

#include <unistd.h>

namespace strata {

int64_t second_level_cache_bytes() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : 512 << 10;
}

}  // namespace strata
