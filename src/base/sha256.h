#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace strata {

// SHA-256 as 64 lower-case hexadecimal digits; fed in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  std::string hex_digest();  // ends the sum; call once

 private:
  void* context_;
};

std::string sha256_hex(std::string_view text);

}  // namespace strata
