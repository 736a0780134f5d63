#include "engine/kv_policy.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>

#include "base/error.h"

namespace strata {
namespace {

constexpr int64_t kMostPositions = int64_t{1} << 30;

// The number of "NAME=123" at the beginning of `text`, which is cut off with a comma behind it.
std::optional<int64_t> take_number(std::string_view name, std::string_view& text) {
  if (!text.starts_with(name)) return std::nullopt;
  const char* const begin = text.data() + name.size();
  const char* const end = text.data() + text.size();
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || value < 1 || value > kMostPositions) return std::nullopt;
  if (stop != end && (*stop != ',' || stop + 1 == end)) return std::nullopt;
  text = stop == end ? std::string_view() : std::string_view(stop + 1, end);
  return value;
}

}  // namespace

KvPolicy parse_kv_policy(std::string_view text, std::string_view option) {
  if (text == "full") return {};
  std::string_view rest = text;
  KvPolicy policy;
  policy.sinks = take_number("sinks=", rest).value_or(0);
  policy.window = take_number("window=", rest).value_or(0);
  if (policy.window == 0 || !rest.empty())
    fail(ErrorCode::invalid_argument,
         "{}: got '{}', wanted full, window=N or sinks=S,window=N with numbers from 1 to {}",
         option, text, kMostPositions);
  return policy;
}

std::string kv_policy_name(const KvPolicy& policy) {
  if (policy.is_full()) return "full";
  if (policy.sinks == 0) return fmt::format("window={}", policy.window);
  return fmt::format("sinks={},window={}", policy.sinks, policy.window);
}

}  // namespace strata
