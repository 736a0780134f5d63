#include "bench/serve_plan.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/philox.h"

namespace strata {
namespace {

// Seconds since 1970 of "2023-11-16 18:17:03.9799600"; false: it is none.
bool parse_time(const std::string& text, double& seconds) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, used = 0;
  double second = 0;
  if (std::sscanf(text.c_str(), "%d-%d-%d %d:%d:%lf%n", &year, &month, &day, &hour, &minute,
                  &second, &used) != 6 ||
      static_cast<size_t>(used) != text.size())
    return false;
  const std::chrono::year_month_day date(std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!date.ok()) return false;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  seconds = static_cast<double>(days) * 86400 + hour * 3600 + minute * 60 + second;
  return true;
}

bool parse_count(const std::string& text, int64_t& count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() && count >= 0;
}

int64_t scaled(int64_t tokens, double scale, int64_t most) {
  const auto shorter = static_cast<int64_t>(std::ceil(static_cast<double>(tokens) / scale));
  return std::max<int64_t>(1, most > 0 ? std::min(shorter, most) : shorter);
}

}  // namespace

std::vector<PlannedCall> poisson_plan(int64_t count, double rate, int64_t prompt_tokens,
                                      int64_t output_tokens, uint64_t seed) {
  std::vector<PlannedCall> plan;
  double at = 0;
  for (int64_t i = 0; i < count; ++i) {
    plan.push_back({at, prompt_tokens, output_tokens});
    const double uniform = sampling_uniform(seed, static_cast<uint32_t>(i), 0, 0);
    at += -std::log1p(-uniform) / rate;
  }
  return plan;
}

std::vector<PlannedCall> read_trace(const std::filesystem::path& path,
                                    const TraceOptions& options) {
  std::ifstream file(path);
  if (!file) fail(ErrorCode::not_found, "{}: cannot be read", path.string());
  std::vector<PlannedCall> plan;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (number == 1 || line.empty()) continue;  // the header
    const size_t second = line.rfind(',');
    const size_t first = second == std::string::npos || second == 0 ? std::string::npos
                                                                    : line.rfind(',', second - 1);
    PlannedCall call;
    if (first == std::string::npos || !parse_time(line.substr(0, first), call.at_seconds) ||
        !parse_count(line.substr(first + 1, second - first - 1), call.prompt_tokens) ||
        !parse_count(line.substr(second + 1), call.output_tokens))
      fail(ErrorCode::data_corrupt,
           "{}:{}: wanted TIMESTAMP,ContextTokens,GeneratedTokens, such as "
           "2023-11-16 18:17:03.97,374,44",
           path.string(), number);
    plan.push_back(call);
  }
  std::stable_sort(plan.begin(), plan.end(), [](const PlannedCall& a, const PlannedCall& b) {
    return a.at_seconds < b.at_seconds;
  });
  const auto size = static_cast<int64_t>(plan.size());
  const int64_t begin = std::min(options.first, size);
  const int64_t end = options.count > 0 ? std::min(begin + options.count, size) : size;
  plan = std::vector<PlannedCall>(plan.begin() + begin, plan.begin() + end);
  if (plan.empty()) fail(ErrorCode::data_corrupt, "{}: no requests in it", path.string());
  const double start = plan.front().at_seconds;
  for (PlannedCall& call : plan) {
    call.at_seconds = (call.at_seconds - start) / options.time_scale;
    call.prompt_tokens = scaled(call.prompt_tokens, options.length_scale, options.most_prompt);
    call.output_tokens = scaled(call.output_tokens, options.length_scale, options.most_output);
  }
  return plan;
}

}  // namespace strata
