#include <immintrin.h>

#include "kernels/isa_tables.h"

namespace strata {
namespace {

using FloatReg = __m256;
using IntReg = __m256i;
constexpr int64_t kBytes = 32;

template <typename Register>
[[gnu::always_inline]] inline void forget(Register& v) {
  __asm__ volatile("" : "+x"(v));
}
[[gnu::always_inline]] inline FloatReg set_floats(float v) { return _mm256_set1_ps(v); }
[[gnu::always_inline]] inline FloatReg fused(FloatReg y, FloatReg a, FloatReg b) {
  return _mm256_fmadd_ps(y, a, b);
}
[[gnu::always_inline]] inline IntReg set_bytes(int v) {
  return _mm256_set1_epi8(static_cast<char>(v));
}
[[gnu::always_inline]] inline IntReg load_ints(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
[[gnu::always_inline]] inline uint64_t bits_of(IntReg v) {
  return static_cast<uint64_t>(_mm256_extract_epi64(v, 0) ^ _mm256_extract_epi64(v, 1) ^
                               _mm256_extract_epi64(v, 2) ^ _mm256_extract_epi64(v, 3));
}

// The instructions of the int8 loops, each a volatile statement: equal ones stay separate and in
// the loop, and no register is copied between them (copies cost a sixth of the rate).
[[gnu::always_inline]] inline IntReg multiply_add(IntReg w, IntReg x) {
  IntReg y;
  __asm__ volatile("vpmaddubsw %2, %1, %0" : "=x"(y) : "x"(w), "x"(x));
  return y;
}
[[gnu::always_inline]] inline void add_to(IntReg& sum, IntReg v) {
  __asm__ volatile("vpaddd %1, %0, %0" : "+x"(sum) : "x"(v));
}
[[gnu::always_inline]] inline IntReg add_words(IntReg a, IntReg b) {
  return _mm256_add_epi16(a, b);
}
[[gnu::always_inline]] inline IntReg add_pairs(IntReg v) {
  return _mm256_madd_epi16(v, _mm256_set1_epi16(1));
}

// The codes as vpmaddubsw takes them, unsigned, and their signs.
struct Codes {
  IntReg magnitude;
  IntReg sign;
};
[[gnu::always_inline]] inline Codes codes_of(int magnitude, bool negative) {
  return {set_bytes(magnitude), set_bytes(negative ? -magnitude : magnitude)};
}
[[gnu::always_inline]] inline IntReg with_sign_of(IntReg x, const Codes& w) {
  IntReg y;
  __asm__ volatile("vpsignb %2, %1, %0" : "=x"(y) : "x"(x), "x"(w.sign));
  return y;
}

#include "kernels/probe.inl.h"

}  // namespace

constinit const ProbeKernels kProbeTableAvx2 = {read,           fp32,           int8<false, 8>,
                                                int8<false, 4>, int8<false, 2>, int8<true, 1>};

}  // namespace strata
