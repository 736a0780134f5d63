#include "base/start_thread.h"

#include <system_error>
#include <utility>

#include "base/error.h"

namespace strata {

std::thread start_thread(std::function<void()> fn) {
  try {
    return std::thread(std::move(fn));
  } catch (const std::system_error& e) {
    fail(ErrorCode::resource_exhausted,
         "the system starts no more threads ({}): take fewer with --threads, or raise the limit of "
         "this process (ulimit -u), of its container (pids) or of its memory",
         e.code().message());
  }
}

}  // namespace strata
