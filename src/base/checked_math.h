#pragma once

#include <cstdint>
#include <optional>

namespace strata {

// Arithmetic on sizes, counts and offsets that a file or request chose: nullopt when the true
// result does not fit. Nothing from outside is multiplied or added in any other way.

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<uint64_t> checked_multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// The least multiple of `alignment` (> 0) that is >= value.
inline std::optional<uint64_t> checked_align_up(uint64_t value, uint64_t alignment) {
  const uint64_t remainder = value % alignment;
  return remainder == 0 ? value : checked_add(value, alignment - remainder);
}

}  // namespace strata
