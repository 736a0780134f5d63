// Included by isa_*_vnni_probe.cpp inside strata's anonymous namespace, after IntReg, kBytes,
// set_bytes and add_dots(sum, w, x) (vpdpbusd). Whatever the range of the codes, sums are of 32
// bits: one rate.

// Ten chains, as for floats.
int64_t int8(int64_t iterations) noexcept {
  constexpr int kChains = 10;
  IntReg sums[kChains];
#pragma GCC unroll 10
  for (int c = 0; c < kChains; ++c) sums[c] = set_bytes(0);
  const IntReg w = set_bytes(3), x = set_bytes(1);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 10
    for (int c = 0; c < kChains; ++c) add_dots(sums[c], w, x);
  }
  return iterations * kChains * kBytes * 2;
}

// What else there is to measure is the lower level's.
constexpr ProbeKernels kTable = {nullptr, nullptr, int8, int8, int8, int8};
