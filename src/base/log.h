#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace strata {

enum class LogLevel { debug, info, warning, error, off };
enum class LogFormat { text, json };

// Lines go to stderr, whole and in order; any thread. Process-wide settings.
void set_log_level(LogLevel level);
LogLevel log_level();
void set_log_format(LogFormat format);
void log_line(LogLevel level, std::string_view message);

template <typename... Args>
void log_debug(fmt::format_string<Args...> f, Args&&... args) {
  if (log_level() <= LogLevel::debug)
    log_line(LogLevel::debug, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> f, Args&&... args) {
  if (log_level() <= LogLevel::info)
    log_line(LogLevel::info, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> f, Args&&... args) {
  if (log_level() <= LogLevel::warning)
    log_line(LogLevel::warning, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> f, Args&&... args) {
  if (log_level() <= LogLevel::error)
    log_line(LogLevel::error, fmt::format(f, std::forward<Args>(args)...));
}

}  // namespace strata
