#pragma once

// e^x in f64 for rows of probabilities; included by rows.inl.h. Vectors of the compiler's own: four
// lanes are one register of AVX2, two of SSE2.
#include <cstdint>

namespace strata {
namespace {

typedef float FourFloats __attribute__((vector_size(16)));
typedef double FourDoubles __attribute__((vector_size(32)));
typedef int64_t FourInts __attribute__((vector_size(32)));

// x <- e^x to 2^-50, x <= 0; below -708, next to nothing, as at -708. x = k ln 2 + r: 2^k from the
// bits of k, e^r from Taylor's series, |r| <= ln 2 / 2.
inline void exp_of_negative(FourDoubles& x) {
  constexpr double kLeast = -708;
  constexpr double kRound = 0x1.8p52;  // a sum with it ends at the ones, in the lowest bits
  constexpr double kLn2High = 0x1.62e42fefap-1, kLn2Low = 0x1.cf79abc9e3b39p-40;
  // 1 / 12!, 1 / 11!, ... 1 / 0!
  constexpr double kTaylor[] = {1.0 / 479001600,
                                1.0 / 39916800,
                                1.0 / 3628800,
                                1.0 / 362880,
                                1.0 / 40320,
                                1.0 / 5040,
                                1.0 / 720,
                                1.0 / 120,
                                1.0 / 24,
                                1.0 / 6,
                                0.5,
                                1,
                                1};
  const FourDoubles least = FourDoubles{} + kLeast;
  const FourDoubles bounded = x < least ? least : x;  // NaN stays
  const FourDoubles rounded = bounded * 1.4426950408889634 + kRound;
  const FourDoubles k = rounded - kRound;
  const FourDoubles r = (bounded - k * kLn2High) - k * kLn2Low;
  FourDoubles sum = {};
  for (const double term : kTaylor) sum = sum * r + term;
  const FourInts power = (reinterpret_cast<FourInts>(rounded) << 52) + (int64_t{1023} << 52);
  x = sum * reinterpret_cast<FourDoubles>(power);
}

double sum_exp_f64(const float* x, float shift, double factor, int64_t n) noexcept {
  constexpr int64_t kFour = 4, kChains = 4;
  FourDoubles sums[kChains] = {};
  const auto add = [&](const float* from, FourDoubles& sum) {
    FourFloats four;
    __builtin_memcpy(&four, from, sizeof four);
    FourDoubles t = (__builtin_convertvector(four, FourDoubles) - double{shift}) * factor;
    exp_of_negative(t);
    sum += t;
  };
  int64_t i = 0;
  for (; i + kFour * kChains <= n; i += kFour * kChains)
    for (int64_t c = 0; c < kChains; ++c) add(x + i + kFour * c, sums[c]);
  for (; i + kFour <= n; i += kFour) add(x + i, sums[0]);
  const FourDoubles all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  double sum = (all[0] + all[1]) + (all[2] + all[3]);
  if (i == n) return sum;
  FourDoubles rest = {};
  for (int64_t j = 0; j < n - i; ++j) rest[j] = (double{x[i + j]} - double{shift}) * factor;
  exp_of_negative(rest);
  for (int64_t j = 0; j < n - i; ++j) sum += rest[j];
  return sum;
}

}  // namespace
}  // namespace strata
