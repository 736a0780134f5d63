#include <immintrin.h>

#include "kernels/isa_tables.h"

namespace strata {
namespace {

using FloatReg = __m512;
using IntReg = __m512i;
constexpr int64_t kBytes = 64;

template <typename Register>
[[gnu::always_inline]] inline void forget(Register& v) {
  __asm__ volatile("" : "+v"(v));
}
[[gnu::always_inline]] inline FloatReg set_floats(float v) { return _mm512_set1_ps(v); }
[[gnu::always_inline]] inline FloatReg fused(FloatReg y, FloatReg a, FloatReg b) {
  return _mm512_fmadd_ps(y, a, b);
}
[[gnu::always_inline]] inline IntReg set_bytes(int v) {
  return _mm512_set1_epi8(static_cast<char>(v));
}
[[gnu::always_inline]] inline IntReg load_ints(const std::byte* p) { return _mm512_loadu_si512(p); }
[[gnu::always_inline]] inline uint64_t bits_of(IntReg v) {
  uint64_t words[8], all = 0;
  _mm512_storeu_si512(words, v);
  for (uint64_t word : words) all ^= word;
  return all;
}

// As for avx2: volatile statements.
[[gnu::always_inline]] inline IntReg multiply_add(IntReg w, IntReg x) {
  IntReg y;
  __asm__ volatile("vpmaddubsw %2, %1, %0" : "=v"(y) : "v"(w), "v"(x));
  return y;
}
[[gnu::always_inline]] inline void add_to(IntReg& sum, IntReg v) {
  __asm__ volatile("vpaddd %1, %0, %0" : "+v"(sum) : "v"(v));
}
[[gnu::always_inline]] inline IntReg add_words(IntReg a, IntReg b) {
  return _mm512_add_epi16(a, b);
}
[[gnu::always_inline]] inline IntReg add_pairs(IntReg v) {
  return _mm512_madd_epi16(v, _mm512_set1_epi16(1));
}

// The codes as vpmaddubsw takes them, unsigned, and which are negative: there is no vpsignb here.
struct Codes {
  IntReg magnitude;
  __mmask64 negative;
};
[[gnu::always_inline]] inline Codes codes_of(int magnitude, bool negative) {
  return {set_bytes(magnitude), negative ? ~__mmask64{0} : __mmask64{0}};
}
[[gnu::always_inline]] inline IntReg with_sign_of(IntReg x, const Codes& w) {
  IntReg y = x;
  __asm__ volatile("vpsubb %2, %1, %0%{%3%}"
                   : "+v"(y)
                   : "v"(set_bytes(0)), "v"(x), "Yk"(w.negative));
  return y;
}

#include "kernels/probe.inl.h"

}  // namespace

constinit const ProbeKernels kProbeTableAvx512 = {read,           fp32,           int8<false, 8>,
                                                  int8<false, 4>, int8<false, 2>, int8<true, 1>};

}  // namespace strata
