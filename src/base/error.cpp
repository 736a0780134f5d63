#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace strata {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::data_corrupt:
      return "data_corrupt";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::resource_exhausted:
      return "resource_exhausted";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

void assertion_failed(const char* condition, const char* file, int line) {
#ifdef STRATA_ASSERT_ABORTS
  std::fprintf(stderr, "strata: assertion failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
#else
  fail(ErrorCode::internal, "assertion failed: {} ({}:{})", condition, file, line);
#endif
}

}  // namespace strata
