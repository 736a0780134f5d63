// Included by isa_*_probe.cpp inside strata's anonymous namespace: the loops of probe.h over a
// level's registers. Before it the level defines
//   FloatReg, IntReg, kBytes (of each)
//   zero_floats, set_floats, fused(y, a, b) = y a + b;  set_bytes, set_words, load_ints, bits_of
//   forget(v): the compiler may not know what is in v afterwards, so that equal operations stay
//   separate and in the loop
//   multiply_add(w, x) (vpmaddubsw), add_words, add_pairs (vpmaddwd with ones), add_to(sum, v)
//   Codes, codes_of(magnitude, negative), with_sign_of(x, codes)

uint64_t read(const std::byte* p, int64_t bytes) noexcept {
  constexpr int64_t kParts = 128 / kBytes;  // `bytes` is a multiple of 128
  IntReg sums[kParts];
#pragma GCC unroll 4
  for (int64_t j = 0; j < kParts; ++j) sums[j] = set_bytes(0);
  for (int64_t i = 0; i < bytes; i += 128) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < kParts; ++j) sums[j] ^= load_ints(p + i + j * kBytes);
  }
  IntReg all = sums[0];
  for (int64_t j = 1; j < kParts; ++j) all ^= sums[j];
  return bits_of(all);
}

// Ten chains: two units with a latency of four or five cycles.
int64_t fp32(int64_t iterations) noexcept {
  constexpr int kChains = 10;
  FloatReg y[kChains];
#pragma GCC unroll 10
  for (int i = 0; i < kChains; ++i) y[i] = set_floats(0);
  const FloatReg a = set_floats(0.999f), b = set_floats(1e-3f);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 10
    for (int i = 0; i < kChains; ++i) {
      y[i] = fused(y[i], a, b);
      forget(y[i]);
    }
  }
  return iterations * kChains * (kBytes / 4) * 2;
}

template <bool kSigned, int kCount>
[[gnu::always_inline]] inline IntReg dots(const Codes& w, IntReg x) {
  if constexpr (kCount > 1)
    return add_words(dots<kSigned, kCount / 2>(w, x), dots<kSigned, kCount / 2>(w, x));
  else
    return multiply_add(w.magnitude, kSigned ? with_sign_of(x, w) : x);
}

// Blocks of eight dots (32 columns), kTogether of them added in 16 bits.
template <bool kSigned, int kTogether>
int64_t int8(int64_t iterations) noexcept {
  constexpr int kChains = 4;
  const Codes w = codes_of(3, kSigned);
  const IntReg x = set_bytes(1);
  IntReg sums[kChains];
#pragma GCC unroll 4
  for (int c = 0; c < kChains; ++c) sums[c] = set_bytes(0);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; i += kTogether)
        add_to(sums[c], add_pairs(dots<kSigned, kTogether>(w, x)));
    }
  }
  return iterations * kChains * 8 * kBytes * 2;
}
