#include <cstring>

#include "kernels/isa_tables.h"

namespace strata {
namespace {

template <typename Number>
[[gnu::always_inline]] inline void forget(Number& v) {
  if constexpr (static_cast<Number>(0.5) == Number{0})
    __asm__ volatile("" : "+r"(v));
  else
    __asm__ volatile("" : "+x"(v));
}

uint64_t read(const std::byte* p, int64_t bytes) noexcept {
  uint64_t sums[4] = {};
  for (int64_t i = 0; i < bytes; i += 32) {
    for (int j = 0; j < 4; ++j) {
      uint64_t word;
      std::memcpy(&word, p + i + 8 * j, 8);
      sums[j] ^= word;
    }
  }
  return sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
}

// One product and one sum at a time, as the scalar kernels do them: eight
// chains.
template <typename Number>
int64_t products(int64_t iterations) noexcept {
  constexpr int kChains = 8;
  Number y[kChains] = {};
  Number a = Number{1}, b = Number{1};
  forget(a);
  forget(b);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 8
    for (int i = 0; i < kChains; ++i) {
      Number product = a;
      forget(product);
      y[i] += product * b;
      forget(y[i]);
    }
  }
  return iterations * kChains * 2;
}

}  // namespace

constinit const ProbeKernels kProbeTableScalar = {read,
                                                  products<float>,
                                                  products<uint32_t>,
                                                  products<uint32_t>,
                                                  products<uint32_t>,
                                                  products<uint32_t>};

}  // namespace strata
