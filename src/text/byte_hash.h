#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace strata {

// A 64-bit hash of bytes for the in-memory tables of this folder; never stored, not
// collision-proof.
inline uint64_t hash_bytes(const char* p, size_t n) {
  const auto mix = [](uint64_t a, uint64_t b) {
    const uint64_t x = (a ^ b) * 0x9E3779B97F4A7C15u;
    return x ^ (x >> 29);
  };
  const auto load8 = [](const char* q) {
    uint64_t v;
    std::memcpy(&v, q, 8);
    return v;
  };
  const auto load4 = [](const char* q) {
    uint32_t v;
    std::memcpy(&v, q, 4);
    return static_cast<uint64_t>(v);
  };
  uint64_t h = n * 0xD6E8FEB86659FD93u;
  if (n < 4) {  // every byte is seen, some twice
    if (n == 0) return mix(h, 1);
    const auto byte = [&](size_t i) {
      return static_cast<uint64_t>(static_cast<unsigned char>(p[i]));
    };
    return mix(mix(h, byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16), n);
  }
  if (n < 8) return mix(mix(h, load4(p) << 32 | load4(p + n - 4)), n);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) h = mix(h, load8(p + i));
  return mix(mix(h, load8(p + n - 8)), n);  // the tail overlaps what was read
}

}  // namespace strata
