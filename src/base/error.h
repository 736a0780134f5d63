#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace strata {

// What kind of fault an Error is. The command line maps them to exit statuses, the server to HTTP.
enum class ErrorCode {
  invalid_argument,    // the caller asked for something that cannot be
  not_found,           // a file, model or name that is not there
  data_corrupt,        // a file that is broken
  unsupported,         // a file or request that is well-formed and beyond this program
  resource_exhausted,  // memory, disk, pages
  cancelled,           // interrupted by the user
  internal,            // our own fault
};

std::string_view error_code_name(ErrorCode code);

// The fault of a caller or a file. The message names operation, operand, got, wanted, the way out.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// Throws Error with a message formatted as by fmt::format.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Called by STRATA_ASSERT: aborts in debug and sanitizer builds, else throws Error{internal}.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace strata

// For our own faults only; input never reaches one.
#define STRATA_ASSERT(condition) \
  ((condition) ? void(0) : ::strata::assertion_failed(#condition, __FILE__, __LINE__))
