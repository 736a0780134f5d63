#include <immintrin.h>

#include "kernels/isa_tables.h"

namespace strata {
namespace {

using IntReg = __m256i;
constexpr int64_t kBytes = 32;

[[gnu::always_inline]] inline IntReg set_bytes(int v) {
  return _mm256_set1_epi8(static_cast<char>(v));
}
// A volatile statement, as in isa_avx2_probe.cpp.
[[gnu::always_inline]] inline void add_dots(IntReg& sum, IntReg w, IntReg x) {
  __asm__ volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(x));
}

#include "kernels/probe_vnni.inl.h"

}  // namespace

constinit const ProbeKernels kProbeTableAvxVnni = kTable;

}  // namespace strata
