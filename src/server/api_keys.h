#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::server {

struct ApiKey {
  std::string name;
  std::string key;
  double priority_cap = std::numeric_limits<double>::infinity();
  int requests_per_minute = 0;  // 0: no limit
};

// The keys of a key file: one `name:key[:priority cap[:requests per minute]]` a line; empty lines
// and lines that begin with # are skipped. Throws Error naming file and line.
std::vector<ApiKey> read_key_file(const std::filesystem::path& path);

// Who may call. With no keys everybody may.
class KeyRing {
 public:
  explicit KeyRing(std::vector<ApiKey> keys);
  bool empty() const { return keys_.empty(); }
  // The index of the key in an Authorization header ("Bearer X"); nullopt: none of ours. Takes the
  // same time whichever key it is, or none.
  std::optional<size_t> find(std::string_view authorization) const;
  const ApiKey& operator[](size_t i) const { return keys_[i]; }
  // Counts a request of that key; returns the seconds to wait when it is over its rate, else 0.
  int seconds_until_allowed(size_t i);

 private:
  struct Bucket {
    double tokens = 0;
    std::chrono::steady_clock::time_point filled;
  };
  std::vector<ApiKey> keys_;
  std::mutex mutex_;
  std::vector<Bucket> buckets_;
};

}  // namespace strata::server
