#include "server/api_keys.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/sha256.h"

namespace strata::server {
namespace {

// Compares digests of equal length, every byte of them.
bool same_digest(const std::string& a, const std::string& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

std::vector<std::string> split_at_colons(const std::string& line) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t at; (at = line.find(':', begin)) != std::string::npos; begin = at + 1)
    parts.push_back(line.substr(begin, at - begin));
  parts.push_back(line.substr(begin));
  return parts;
}

template <typename T>
T parse_number(const std::string& text, const std::string& where, const char* what) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorCode::invalid_argument, "{}: {}: got '{}', wanted a number", where, what, text);
  return value;
}

}  // namespace

std::vector<ApiKey> read_key_file(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream) fail(ErrorCode::not_found, "{}: cannot be read", path.string());
  std::vector<ApiKey> keys;
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const std::string where = fmt::format("{}: line {}", path.string(), number);
    const auto parts = split_at_colons(line);
    if (parts.size() < 2 || parts.size() > 4 || parts[0].empty() || parts[1].empty())
      fail(ErrorCode::invalid_argument, "{}: wanted name:key[:priority cap[:requests per minute]]",
           where);
    ApiKey key;
    key.name = parts[0];
    key.key = parts[1];
    if (parts.size() > 2 && !parts[2].empty())
      key.priority_cap = parse_number<double>(parts[2], where, "priority cap");
    if (parts.size() > 3)
      key.requests_per_minute = parse_number<int>(parts[3], where, "requests per minute");
    keys.push_back(std::move(key));
  }
  if (keys.empty())
    fail(ErrorCode::invalid_argument, "{}: no keys in it; nobody could use the server",
         path.string());
  return keys;
}

KeyRing::KeyRing(std::vector<ApiKey> keys) : keys_(std::move(keys)), buckets_(keys_.size()) {
  const auto now = std::chrono::steady_clock::now();
  for (size_t i = 0; i < keys_.size(); ++i)
    buckets_[i] = {double(keys_[i].requests_per_minute), now};
}

std::optional<size_t> KeyRing::find(std::string_view authorization) const {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return std::nullopt;
  const bool bearer = std::equal(
      kScheme.begin(), kScheme.end(), authorization.begin(),
      [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b); });
  if (!bearer) return std::nullopt;
  // Digests have one length, and what is compared byte by byte is nothing a caller can steer.
  const std::string digest = sha256_hex(authorization.substr(kScheme.size()));
  std::optional<size_t> found;
  for (size_t i = 0; i < keys_.size(); ++i)
    if (same_digest(digest, sha256_hex(keys_[i].key))) found = i;
  return found;
}

int KeyRing::seconds_until_allowed(size_t i) {
  const int limit = keys_[i].requests_per_minute;
  if (limit <= 0) return 0;
  const std::lock_guard lock(mutex_);
  Bucket& bucket = buckets_[i];
  const auto now = std::chrono::steady_clock::now();
  const double per_second = limit / 60.0;
  const double passed = std::chrono::duration<double>(now - bucket.filled).count();
  bucket.tokens = std::min<double>(limit, bucket.tokens + passed * per_second);
  bucket.filled = now;
  if (bucket.tokens >= 1) {
    bucket.tokens -= 1;
    return 0;
  }
  return std::clamp(static_cast<int>(std::ceil((1 - bucket.tokens) / per_second)), 1, 60);
}

}  // namespace strata::server
