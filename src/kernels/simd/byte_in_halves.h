#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/strips.h"

namespace strata {
namespace {

// Has vpshufb give byte `b` of each of four lanes twice, a zero above each.
STRATA_SIMD __m128i byte_in_halves(int b) {
  return _mm_add_epi16(_mm_setr_epi16(0, 0, 4, 4, 8, 8, 12, 12),
                       _mm_set1_epi16(static_cast<int16_t>(b - 0x8000)));
}

}  // namespace
}  // namespace strata
