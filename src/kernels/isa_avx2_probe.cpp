#include <immintrin.h>

#include "kernels/isa_tables.h"

namespace strata {
namespace {

// The compiler may not know what is in v afterwards: equal operations stay
// separate and in the loop.
template <typename Vector>
[[gnu::always_inline]] inline void forget(Vector& v) {
  __asm__ volatile("" : "+x"(v));
}

uint64_t read(const std::byte* p, int64_t bytes) noexcept {
  const auto* v = reinterpret_cast<const __m256i*>(p);
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (int64_t i = 0; i < bytes / 32; i += 4) {
    a = _mm256_xor_si256(a, _mm256_loadu_si256(v + i));
    b = _mm256_xor_si256(b, _mm256_loadu_si256(v + i + 1));
    c = _mm256_xor_si256(c, _mm256_loadu_si256(v + i + 2));
    d = _mm256_xor_si256(d, _mm256_loadu_si256(v + i + 3));
  }
  const __m256i all = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
  return static_cast<uint64_t>(_mm256_extract_epi64(all, 0) ^ _mm256_extract_epi64(all, 1) ^
                               _mm256_extract_epi64(all, 2) ^ _mm256_extract_epi64(all, 3));
}

// Ten chains: two units with a latency of four or five cycles.
int64_t fp32(int64_t iterations) noexcept {
  constexpr int kChains = 10;
  __m256 y[kChains];
#pragma GCC unroll 10
  for (int i = 0; i < kChains; ++i) y[i] = _mm256_setzero_ps();
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-3f);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 10
    for (int i = 0; i < kChains; ++i) {
      y[i] = _mm256_fmadd_ps(y[i], a, b);
      forget(y[i]);
    }
  }
  return iterations * kChains * 8 * 2;
}

// The instructions of the int8 loops, each a volatile statement: equal ones stay separate and in
// the loop, and no register is copied between them (copies cost a sixth of the rate).
[[gnu::always_inline]] inline __m256i multiply_add(__m256i w, __m256i x) {
  __m256i y;
  __asm__ volatile("vpmaddubsw %2, %1, %0" : "=x"(y) : "x"(w), "x"(x));
  return y;
}
[[gnu::always_inline]] inline __m256i with_sign_of(__m256i x, __m256i w) {
  __m256i y;
  __asm__ volatile("vpsignb %2, %1, %0" : "=x"(y) : "x"(x), "x"(w));
  return y;
}
[[gnu::always_inline]] inline void add_to(__m256i& sum, __m256i v) {
  __asm__ volatile("vpaddd %1, %0, %0" : "+x"(sum) : "x"(v));
}

// The codes as vpmaddubsw takes them, unsigned, and their signs.
struct Codes {
  __m256i magnitude;
  __m256i sign;
};

template <bool kSigned, int kCount>
[[gnu::always_inline]] inline __m256i dots(const Codes& w, __m256i x) {
  if constexpr (kCount > 1)
    return _mm256_add_epi16(dots<kSigned, kCount / 2>(w, x), dots<kSigned, kCount / 2>(w, x));
  else
    return multiply_add(w.magnitude, kSigned ? with_sign_of(x, w.sign) : x);
}

// Blocks of eight dots (32 columns), kTogether of them added in 16 bits.
template <bool kSigned, int kTogether>
int64_t int8(int64_t iterations) noexcept {
  constexpr int kChains = 4;
  const Codes w = {_mm256_set1_epi8(3), _mm256_set1_epi8(kSigned ? -3 : 3)};
  const __m256i x = _mm256_set1_epi8(1), one = _mm256_set1_epi16(1);
  __m256i sums[kChains];
#pragma GCC unroll 4
  for (int c = 0; c < kChains; ++c) sums[c] = _mm256_setzero_si256();
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; i += kTogether)
        add_to(sums[c], _mm256_madd_epi16(dots<kSigned, kTogether>(w, x), one));
    }
  }
  return iterations * kChains * 8 * 32 * 2;
}

}  // namespace

constinit const ProbeKernels kProbeTableAvx2 = {read,           fp32,           int8<false, 8>,
                                                int8<false, 4>, int8<false, 2>, int8<true, 1>};

}  // namespace strata
