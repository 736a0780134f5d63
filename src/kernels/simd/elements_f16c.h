#pragma once

#include <immintrin.h>

#include "kernels/simd/elements.h"

// f16 elements on processors with F16C: all that have AVX2.
namespace strata {
namespace {

inline float to_float(F16 x) { return _cvtsh_ss(x.bits); }
inline void from_float(float x, F16& out) {
  out.bits = static_cast<uint16_t>(
      _mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT), 0));
}

}  // namespace
}  // namespace strata
