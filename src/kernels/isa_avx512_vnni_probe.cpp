#include <immintrin.h>

#include "kernels/isa_tables.h"

namespace strata {
namespace {

using IntReg = __m512i;
constexpr int64_t kBytes = 64;

[[gnu::always_inline]] inline IntReg set_bytes(int v) {
  return _mm512_set1_epi8(static_cast<char>(v));
}
// A volatile statement, as in isa_avx2_probe.cpp.
[[gnu::always_inline]] inline void add_dots(IntReg& sum, IntReg w, IntReg x) {
  __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
}

#include "kernels/probe_vnni.inl.h"

}  // namespace

constinit const ProbeKernels kProbeTableAvx512Vnni = kTable;

}  // namespace strata
