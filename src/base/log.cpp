#include "base/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace strata {
namespace {

std::atomic<LogLevel> g_level{LogLevel::info};
std::atomic<LogFormat> g_format{LogFormat::text};

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
    case LogLevel::off:
      break;
  }
  return "off";
}

std::string timestamp() {
  const auto now =
      std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:}{:%S}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     now.time_since_epoch());
}

}  // namespace

void set_log_level(LogLevel level) { g_level = level; }
LogLevel log_level() { return g_level; }
void set_log_format(LogFormat format) { g_format = format; }

void log_line(LogLevel level, std::string_view message) {
  std::string line;
  if (g_format.load() == LogFormat::json) {
    const nlohmann::json entry = {
        {"time", timestamp()}, {"level", level_name(level)}, {"message", message}};
    line = entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } else {
    line = level >= LogLevel::warning ? fmt::format("strata: {}: {}", level_name(level), message)
                                      : fmt::format("strata: {}", message);
    // One event is one line, whatever a file or a client put into it.
    for (char& c : line)
      if (c == '\n' || c == '\r') c = ' ';
  }
  line += '\n';
  // One write, so that lines of several threads do not mix.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace strata
