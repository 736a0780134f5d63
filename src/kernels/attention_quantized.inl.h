#pragma once

// Pages of q8 and q4 (attention.h), once for all levels; included behind attention.inl.h.
#include <cstring>
#include <type_traits>

#include "kernels/attention.inl.h"

namespace strata {
namespace {

// What every group has beside its codes.
struct GroupFit {
  F16 scale{}, offset{};  // q8 has no offset
};

// The parts of a head page; Byte is uint8_t, or const to read only.
template <int kBits, class Byte>
struct QuantizedPage {
  using Half = std::conditional_t<std::is_const_v<Byte>, const F16, F16>;

  QuantizedPage(Byte* page, const PageShape& shape)
      : groups(kv_groups(shape.head_size)),
        padded(padded_head(shape.head_size)),
        fits(shape.tokens * groups),
        keys(page),
        values(keys + code_bytes(key_elements(shape))),
        key_fits(reinterpret_cast<Half*>(keys + code_bytes(head_page_elements(shape)))),
        value_fits(key_fits + kHalves * fits) {}

  static constexpr int kHalves = kBits == 4 ? 2 : 1;  // of a group
  static constexpr int64_t code_bytes(int64_t codes) { return codes * kBits / 8; }

  // The fit at `index` of all groups' [S * groups].
  GroupFit fit(const Half* of, int index) const {
    return {of[index], kBits == 4 ? of[fits + index] : F16{}};
  }
  void put_fit(Half* of, int index, const GroupFit& fit) const {
    of[index] = fit.scale;
    if constexpr (kBits == 4) of[fits + index] = fit.offset;
  }

  int groups, padded, fits;
  Byte* keys;
  Byte* values;
  Half* key_fits;
  Half* value_fits;
};

constexpr int kRun = 16;  // codes decoded at once
constexpr int kRunVecs = kRun / kLanes;

// out[v][i] = code v kLanes + i of kRun.
template <int kBits>
inline void load_codes(const uint8_t* codes, Vec (&out)[kRunVecs]) {
  if constexpr (kBits == 8) {
    for (int v = 0; v < kRunVecs; ++v) out[v] = load_signed_bytes(codes + v * kLanes);
  } else {
    load_nibbles(codes, out);
  }
}

// What the codes of a run are multiplied by and, with 4 bits, what is added.
template <int kBits>
struct RunFits {
  Vec scales[kRunVecs], offsets[kRunVecs];

  void unpack(const uint8_t* codes, float* out) const {
    Vec x[kRunVecs];
    load_codes<kBits>(codes, x);
    for (int v = 0; v < kRunVecs; ++v) {
      x[v] = mul(x[v], scales[v]);
      if constexpr (kBits == 4) x[v] = add(x[v], offsets[v]);
      store(out + v * kLanes, x[v]);
    }
  }
};

// unpack() of pages of kTokens tokens.
template <int kBits, int kTokens>
void unpack_tokens(const uint8_t* head_page, int head_size, float* out) {
  const PageShape shape{head_size, kTokens};
  const QuantizedPage<kBits, const uint8_t> page(head_page, shape);
  // A run of keys is of one dimension or, in pages of 8, of two.
  constexpr int kRunTokens = kTokens < kRun ? kTokens : kRun, kRunDims = kRun / kRunTokens;
  const auto along_run = [](const F16* of_tokens, Vec(&along)[kRunVecs]) {
    F16 run[kRun];
    for (int d = 0; d < kRunDims; ++d)
      std::memcpy(run + d * kRunTokens, of_tokens, kRunTokens * sizeof(F16));
    for (int v = 0; v < kRunVecs; ++v) along[v] = load_as_float(run + v * kLanes);
  };
  RunFits<kBits> fits;
  for (int g = 0; g < page.groups; ++g)
    for (int first = 0; first < kTokens; first += kRunTokens) {
      const F16* scales = page.key_fits + g * kTokens + first;
      along_run(scales, fits.scales);
      if constexpr (kBits == 4) along_run(scales + page.fits, fits.offsets);
      for (int d = g * kKvGroup; d < smaller(head_size, (g + 1) * kKvGroup); d += kRunDims) {
        const int64_t at = int64_t{d} * kTokens + first;
        fits.unpack(page.keys + page.code_bytes(at), out + at);
      }
    }
  out += key_elements(shape);
  for (int t = 0; t < kTokens; ++t)
    for (int d = 0; d < page.padded; d += kRun) {
      const int64_t at = int64_t{t} * page.padded + d;
      const GroupFit fit = page.fit(page.value_fits, t * page.groups + d / kKvGroup);
      for (int v = 0; v < kRunVecs; ++v) {
        fits.scales[v] = broadcast(to_float(fit.scale));
        fits.offsets[v] = broadcast(to_float(fit.offset));
      }
      fits.unpack(page.values + page.code_bytes(at), out + at);
    }
}

template <int kBits>
void unpack_page(const void* head_page, const PageShape& shape, float* out) noexcept {
  const auto* codes = static_cast<const uint8_t*>(head_page);
  switch (shape.tokens) {
    case 8:
      return unpack_tokens<kBits, 8>(codes, shape.head_size, out);
    case 16:
      return unpack_tokens<kBits, 16>(codes, shape.head_size, out);
    case 32:
      return unpack_tokens<kBits, 32>(codes, shape.head_size, out);
    default:
      return unpack_tokens<kBits, 64>(codes, shape.head_size, out);
  }
}

constexpr float kInfinity = __builtin_inff();

// x to the nearest integer, halves to even, for |x| < 2^22.
inline Vec round(Vec x) {
  const Vec shift = broadcast(0x1.8p23f);
  return sub(add(x, shift), shift);
}

// A group is [kKvGroup] floats, of which the first n count; the others repeat some of these. Codes
// are written for all. What is not finite, or too large for an f16, gives fits that are not finite
// either, and NaN when it is unpacked: a broken model stays visible.

// s = max |x| / 127; zeros when it is all zero, or so small that f16 has no scale for it.
inline GroupFit fit_group_8(const float* x, int /*n*/, float* codes) {
  Vec largest = zero(), sum = zero();
  for (int i = 0; i < kKvGroup; i += kLanes) {
    const Vec magnitude = abs(load(x + i));
    largest = max(largest, magnitude);
    sum = add(sum, magnitude);  // a NaN stays in it
  }
  const float total = reduce_add(sum);
  GroupFit fit;
  from_float((total == total ? reduce_max(largest) : total) / 127, fit.scale);
  const float s = to_float(fit.scale);
  const bool usable = s > 0 && s < kInfinity;
  const Vec inverse = broadcast(usable ? 1 / s : 0);
  const Vec low = broadcast(-127), high = broadcast(127);
  for (int i = 0; i < kKvGroup; i += kLanes) {
    // The scale as rounded may be the smaller one: clamped.
    const Vec code = usable ? min(max(round(mul(load(x + i), inverse)), low), high) : zero();
    store(codes + i, code);
  }
  return fit;
}

// The codes 0..15 nearest to (x - b) / s.
inline void nearest_codes_4(const float* x, float scale, float offset, float* codes) {
  const Vec b = broadcast(offset), inverse = broadcast(scale > 0 ? 1 / scale : 0);
  for (int i = 0; i < kKvGroup; i += kLanes) {
    const Vec code = round(mul(sub(load(x + i), b), inverse));
    store(codes + i, min(max(code, zero()), broadcast(15)));
  }
}

// s and b by least squares, for the codes of the best of some ranges within the group's: what lies
// outside is clipped, and the others are nearer to a level.
inline GroupFit fit_group_4(const float* x, int n, float* codes) {
  constexpr float kShares[] = {1, 0.95f, 0.9f, 0.85f};
  Vec least = broadcast(kInfinity), most = broadcast(-kInfinity), sum = zero();
  for (int i = 0; i < kKvGroup; i += kLanes) {
    least = min(least, load(x + i));
    most = max(most, load(x + i));
    sum = add(sum, load(x + i));
  }
  const float low = -reduce_max(sub(zero(), least)), high = reduce_max(most);
  const float all = reduce_add(sum), half = 0.5f * (high - low), middle = low + half;
  float scale = 0, offset = middle;
  // NaN where any x is, or where a difference is too large.
  if (!(all - all == 0) || !(half < kInfinity)) scale = offset = __builtin_nanf("");
  if (half > 0 && half < kInfinity) {
    float best = -1;
    for (const float share : kShares) {
      const float step = 2 * half * share / 15, bottom = middle - half * share;
      nearest_codes_4(x, step, bottom, codes);
      float c = 0, cc = 0, y = 0, cy = 0;  // sums of the codes and of x - middle
      for (int i = 0; i < n; ++i) {
        const float from_middle = x[i] - middle;
        c += codes[i];
        cc += codes[i] * codes[i];
        y += from_middle;
        cy += codes[i] * from_middle;
      }
      const auto count = static_cast<float>(n);
      const float variance = cc - c * c / count, covariance = cy - c * y / count;
      if (!(variance > 0)) continue;
      // The sum of squares is less by so much.
      const float gain = covariance * covariance / variance;
      if (gain <= best) continue;
      best = gain;
      scale = covariance / variance;
      offset = middle + (y - scale * c) / count;
    }
  }
  GroupFit fit;
  from_float(scale, fit.scale);
  from_float(offset, fit.offset);
  const float s = to_float(fit.scale);
  if (!(s < kInfinity)) from_float(__builtin_nanf(""), fit.offset);
  nearest_codes_4(x, s < kInfinity ? s : 0, to_float(fit.offset), codes);
  return fit;
}

template <int kBits>
inline void put_code(uint8_t* codes, int64_t index, float code) {
  if constexpr (kBits == 8) {
    codes[index] = static_cast<uint8_t>(static_cast<int8_t>(code));
  } else {
    const auto bits = static_cast<uint32_t>(code);
    uint8_t& byte = codes[index / 16 * 8 + index % 8];
    byte =
        static_cast<uint8_t>(index % 16 < 8 ? (byte & 0xf0u) | bits : (byte & 0x0fu) | bits << 4);
  }
}

template <int kBits>
inline GroupFit fit_group(const float* x, int n, float* codes) {
  float group[kKvGroup];
  for (int i = 0; i < kKvGroup; ++i) group[i] = x[i % n];
  return kBits == 8 ? fit_group_8(group, n, codes) : fit_group_4(group, n, codes);
}

template <int kBits>
void store_quantized(const float* k, const float* v, const PageShape& shape, int slot,
                     void* out) noexcept {
  const QuantizedPage<kBits, uint8_t> page(static_cast<uint8_t*>(out), shape);
  float codes[kKvGroup];
  for (int g = 0; g < page.groups; ++g) {
    const int first = g * kKvGroup;
    const int n = smaller(kKvGroup, shape.head_size - first);
    page.put_fit(page.key_fits, g * shape.tokens + slot, fit_group<kBits>(k + first, n, codes));
    for (int i = 0; i < n; ++i)
      put_code<kBits>(page.keys, int64_t{first + i} * shape.tokens + slot, codes[i]);
    page.put_fit(page.value_fits, slot * page.groups + g, fit_group<kBits>(v + first, n, codes));
    for (int i = 0; i < smaller(kKvGroup, page.padded - first); ++i)
      put_code<kBits>(page.values, int64_t{slot} * page.padded + first + i, codes[i]);
  }
}

void rotate(float* x, int head_size) noexcept {
  const int block = head_size & -head_size;
  for (int half = 1; half < block; half *= 2)
    for (int first = 0; first < head_size; first += 2 * half)
      for (int i = first; i < first + half; ++i) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
  const float norm = 1 / __builtin_sqrtf(static_cast<float>(block));
  for (int i = 0; i < head_size; ++i) x[i] *= norm;
}

template <int kBits>
constexpr AttentionKernels kQuantizedTable = {nullptr, store_quantized<kBits>, merge,
                                              finish,  unpack_page<kBits>,     rotate};

}  // namespace
}  // namespace strata
