#pragma once

#include <cstddef>
#include <cstdint>

// What the headers lanes_*.h share. A vector of them has a lane for each row of kStrips strips
// (numeric/packed.h), 8 rows after 8 rows; level headers say how many strips that is.
#ifndef STRATA_UNROLL
#ifdef __clang__
#define STRATA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define STRATA_UNROLL _Pragma("GCC unroll 16")
#endif
#endif
#define STRATA_SIMD [[gnu::always_inline]] inline

namespace strata {
namespace {

// The same place in each strip of a vector: loads take the part of 8 rows from each. Levels of one
// strip look at the first only; `apart` is 0 where a vector's second strip does not exist, and the
// first is read in its place.
struct Strips {
  const std::byte* first = nullptr;
  int64_t apart = 0;               // bytes
  const std::byte* end = nullptr;  // of the first strip
};
STRATA_SIMD Strips operator+(Strips s, int64_t bytes) { return {s.first + bytes, s.apart, s.end}; }

}  // namespace
}  // namespace strata
