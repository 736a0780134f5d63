#pragma once

// Elementary functions on vectors. Included by ISA files after their simd/vec_*.h.
namespace strata {
namespace {

// e^x, lane by lane, so a value never depends on its neighbours.
// Err: |y - e^x| <= 2.5 ulp for -87.33 <= x <= 88.37; below that 0, above it +inf, NaN stays NaN.
// x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 split in two so that n ln 2 is exact in the first
// part), e^r by a polynomial of degree 7; Src: Moshier, Cephes, expf.c (coefficients).
inline Vec exp(Vec x) {
  constexpr float kLowest = -87.33f, kHighest = 88.37f;  // n stays in -126..127
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const Vec clamped = min(broadcast(kHighest), max(broadcast(kLowest), x));
  const Vec biased = fma(clamped, broadcast(1.44269504088896341f), broadcast(kRound));
  const Vec n = sub(biased, broadcast(kRound));
  Vec r = fnma(n, broadcast(0.693359375f), clamped);
  r = fnma(n, broadcast(-2.12194440e-4f), r);
  Vec p = broadcast(1.9875691500e-4f);
  p = fma(p, r, broadcast(1.3981999507e-3f));
  p = fma(p, r, broadcast(8.3334519073e-3f));
  p = fma(p, r, broadcast(4.1665795894e-2f));
  p = fma(p, r, broadcast(1.6666665459e-1f));
  p = fma(p, r, broadcast(5.0000001201e-1f));
  p = add(fma(p, mul(r, r), r), broadcast(1.0f));
  Vec y = scale_by_power(p, biased);
  y = if_less(x, broadcast(kLowest), zero(), y);
  return if_less(broadcast(kHighest), x, broadcast(__builtin_inff()), y);
}

// 2^x for x <= 0, lane by lane; 0 below -126.5 (-inf too), exactly 1 at 0, NaN stays NaN.
// Err: |y - 2^x| <= 1.4 * 2^-24 y above -126. The fraction's polynomial of degree 6 is a fit of
// smallest largest relative error on [-1/2, 1/2] with p(0) = 1 (2.0e-9 before rounding).
inline Vec exp2_negative(Vec x) {
  constexpr float kRound = 12582912.0f;            // 1.5 * 2^23: adding it rounds to an integer
  const Vec clamped = max(broadcast(-127.0f), x);  // 2^-127 is the power whose bits are 0
  const Vec biased = add(clamped, broadcast(kRound));
  const Vec r = sub(clamped, sub(biased, broadcast(kRound)));
  Vec p = broadcast(1.5353359049e-4f);
  p = fma(p, r, broadcast(1.3398876181e-3f));
  p = fma(p, r, broadcast(9.6184369177e-3f));
  p = fma(p, r, broadcast(5.5503323674e-2f));
  p = fma(p, r, broadcast(2.4022647738e-1f));
  p = fma(p, r, broadcast(6.9314718246e-1f));
  p = fma(p, r, broadcast(1.0f));
  return scale_by_power(p, biased);
}

// 1 - 2 / (e^2x + 1). Err: 6 eps, absolute.
inline Vec tanh(Vec x) {
  const Vec one = broadcast(1.0f);
  return sub(one, div(broadcast(2.0f), add(exp(add(x, x)), one)));
}

// x / (1 + e^-x).
inline Vec silu(Vec x) { return div(x, add(broadcast(1.0f), exp(sub(zero(), x)))); }

// x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3); as x / (1 + e^-2u), which keeps its
// relative precision where 1 + tanh u cancels. Src: Hendrycks & Gimpel (arXiv:1606.08415).
inline Vec gelu_tanh(Vec x) {
  const Vec cubic = fma(mul(x, x), broadcast(0.044715f), broadcast(1.0f));
  const Vec minus_2u = mul(mul(x, cubic), broadcast(-1.5957691216057308f));
  return div(x, add(broadcast(1.0f), exp(minus_2u)));
}

// Phi(x), the normal distribution: Phi(-|x|) = q(t) e^(-x^2/2) / 2, t = 1 / (1 + p |x| / sqrt 2).
// Err: 7.5e-8 from the approximation. Src: Abramowitz & Stegun 7.1.26.
inline Vec normal_cdf(Vec x) {
  const Vec z = mul(abs(x), broadcast(0.70710678118654752f));
  const Vec t = div(broadcast(1.0f), fma(z, broadcast(0.3275911f), broadcast(1.0f)));
  Vec q = broadcast(1.061405429f);
  q = fma(q, t, broadcast(-1.453152027f));
  q = fma(q, t, broadcast(1.421413741f));
  q = fma(q, t, broadcast(-0.284496736f));
  q = fma(q, t, broadcast(0.254829592f));
  const Vec tail = mul(mul(mul(q, t), broadcast(0.5f)), exp(sub(zero(), mul(z, z))));
  return if_less(x, zero(), tail, sub(broadcast(1.0f), tail));
}

// x Phi(x).
inline Vec gelu_erf(Vec x) { return mul(x, normal_cdf(x)); }

inline Vec relu(Vec x) { return max(zero(), x); }

}  // namespace
}  // namespace strata
