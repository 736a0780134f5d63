// Included by isa_*_matmul.cpp after matmul_format.inl.h and matmul_panel.inl.h: the products of
// few tokens, which keep a strip's codes in registers, the float products, and the table of all.

// ---- formats with a block of 32 ----

template <typename F, int kTokens>
STRATA_SIMD void accumulate_32(const std::byte* w, int64_t in, const ActivationBlock* x,
                               int64_t x_stride, F8 (&y)[kTokens]) {
  const W16 one = w16_set(1);
  const W16 bias = w16_set(F::kTraits.bias);
  for (int64_t b = 0; b < in / 32; ++b, w += F::kHeaderBytes + F::kCodeBytes) {
    prefetch_ahead(w);
    B32 codes[8];
    load_codes<F>(w + F::kHeaderBytes, codes);
    const F8 d = f8_load_f16(w);
    F8 m = f8_zero();
    if constexpr (F::kShape.has_m) m = f8_load_f16(w + F::kMBytes);
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const ActivationBlock& block = x[t * x_stride + b];
      I8 sum = dot_scaled<F, 8>(codes, block.q, one);
      if constexpr (F::kTraits.bias != 0)
        sum = i8_sub(sum, i8_pair_dot(w16_broadcast_pair(block.sums), bias));
      y[t] = f8_fma(d, f8_mul(f8_from_int(sum), f8_broadcast(&block.scale)), y[t]);
      if constexpr (F::kShape.has_m) y[t] = f8_fma(m, f8_broadcast(&block.scaled_sum), y[t]);
    }
  }
}

// ---- formats with a block of 256 ----

template <typename F>
STRATA_SIMD I8 dot_group(const B32 (&codes)[8], const ActivationBlock& block,
                         const GroupScales<F>& scales, W16 biased) {
  if constexpr (!F::kPer16) return dot_scaled<F, 8>(codes, block.q, scales.first);
  I8 sum = i8_add(dot_scaled<F, 4>(codes, block.q, scales.first),
                  dot_scaled<F, 4>(codes + 4, block.q + 16, scales.second));
  if constexpr (F::kTraits.bias != 0)
    sum = i8_sub(sum, i8_pair_dot(w16_broadcast_pair(block.sums), biased));
  return sum;
}

template <typename F, int kTokens>
STRATA_SIMD void accumulate_256(const std::byte* w, int64_t in, const ActivationBlock* x,
                                int64_t x_stride, F8 (&y)[kTokens]) {
  for (int64_t k = 0; k < in; k += 256, x += 8, w += F::kHeaderBytes + 8 * F::kCodeBytes) {
    F8 sums[kTokens];
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) sums[t] = f8_zero();
    for (int b = 0; b < 8; ++b) {
      const std::byte* planes = w + F::kHeaderBytes + F::kCodeBytes * b;
      prefetch_ahead(planes);
      B32 codes[8];
      load_codes<F>(planes, codes);
      const GroupScales<F> scales = load_scales<F>(w, b);
      const W16 biased = biased_scales<F>(scales);
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const ActivationBlock& block = x[t * x_stride + b];
        const I8 sum = dot_group<F>(codes, block, scales, biased);
        sums[t] = f8_fma(f8_from_int(sum), f8_broadcast(&block.scale), sums[t]);
      }
    }
    const F8 d = f8_load_f16(w);
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) y[t] = f8_fma(d, sums[t], y[t]);
    if constexpr (F::kShape.has_m) {
      const F8 dmin = f8_load_f16(w + F::kMBytes);
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) sums[t] = f8_zero();
      for (int b = 0; b < 8; ++b) {
        if constexpr (F::kPer16) {
          const W16 offsets = load_pair_offsets<F>(w, b);
          STRATA_UNROLL
          for (int t = 0; t < kTokens; ++t) {
            const ActivationBlock& block = x[t * x_stride + b];
            const I8 sum = i8_pair_dot(w16_broadcast_pair(block.sums), offsets);
            sums[t] = f8_fma(f8_from_int(sum), f8_broadcast(&block.scale), sums[t]);
          }
        } else {
          const F8 offsets = f8_load_u8(w + F::kOffsetBytes + 8 * b);
          STRATA_UNROLL
          for (int t = 0; t < kTokens; ++t)
            sums[t] = f8_fma(offsets, f8_broadcast(&x[t * x_stride + b].scaled_sum), sums[t]);
        }
      }
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) y[t] = f8_fnma(dmin, sums[t], y[t]);
    }
  }
}

// ---- quantised product ----

template <typename F, int kTokens>
void quantised_tile(const MatmulArgs& a, const std::byte* strip, int64_t row, int64_t token) {
  F8 y[kTokens];
  STRATA_UNROLL
  for (int t = 0; t < kTokens; ++t) y[t] = f8_zero();
  const ActivationBlock* x = a.blocks + token * a.x_stride;
  if constexpr (F::kShape.scale_groups == 0)
    accumulate_32<F, kTokens>(strip, a.in, x, a.x_stride, y);
  else
    accumulate_256<F, kTokens>(strip, a.in, x, a.x_stride, y);
  STRATA_UNROLL
  for (int t = 0; t < kTokens; ++t) store_results(a, y[t], row, token + t);
}

// The tokens from `token` on: full tiles, then tiles of half the size, and so on.
template <typename F, int kTokens>
void quantised_tokens(const MatmulArgs& a, const std::byte* strip, int64_t row, int64_t token) {
  for (; token + kTokens <= a.tokens; token += kTokens)
    quantised_tile<F, kTokens>(a, strip, row, token);
  if constexpr (kTokens > 1) quantised_tokens<F, kTokens / 2>(a, strip, row, token);
}

template <TensorType kType>
void matmul_quantised(const MatmulArgs& a) noexcept {
  using F = Format<kType>;
  const std::byte* strip = a.weights;
  int64_t row = 0;
  if (a.tokens >= kLeastPanelTokens) {
    constexpr int64_t kRows = kPanelStrips * kStripRows;
    // The last strip may hold fewer rows than 8.
    for (; row + kRows - kStripRows < a.rows; row += kRows, strip += kPanelStrips * a.strip_bytes)
      for (int64_t token = 0; token < a.tokens; token += kPanelTokens) {
        const int64_t left = a.tokens - token;
        panel_rows<F>(a, strip, row, token,
                      left < kPanelTokens ? static_cast<int>(left) : kPanelTokens);
      }
  }
  for (; row < a.rows; row += kStripRows, strip += a.strip_bytes)
    quantised_tokens<F, kTileTokens>(a, strip, row, 0);
}

// ---- float product ----

template <TensorType kType>
STRATA_SIMD F8 load_weights(const std::byte* p) {
  if constexpr (kType == TensorType::f16) return f8_load_f16(p);
  if constexpr (kType == TensorType::bf16) return f8_load_bf16(p);
  if constexpr (kType == TensorType::f32) {
    float v[8];
    __builtin_memcpy(v, p, sizeof(v));
    return f8_load(v);
  }
}

// kStrips x kTokens chains of fused multiply-adds: enough of them to hide the
// latency of one.
template <TensorType kType, int kStrips, int kTokens>
void float_tile(const MatmulArgs& a, const std::byte* strip, int64_t row, int64_t token) {
  constexpr int64_t kColumnBytes = kStripRows * (kType == TensorType::f32 ? 4 : 2);
  F8 y[kStrips][kTokens];
  STRATA_UNROLL
  for (int s = 0; s < kStrips; ++s) STRATA_UNROLL
  for (int t = 0; t < kTokens; ++t) y[s][t] = f8_zero();
  const float* x = a.floats + token * a.x_stride;
  for (int64_t k = 0; k < a.in; ++k) {
    F8 w[kStrips];
    STRATA_UNROLL
    for (int s = 0; s < kStrips; ++s)
      w[s] = load_weights<kType>(strip + s * a.strip_bytes + k * kColumnBytes);
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const F8 value = f8_broadcast(x + t * a.x_stride + k);
      STRATA_UNROLL
      for (int s = 0; s < kStrips; ++s) y[s][t] = f8_fma(w[s], value, y[s][t]);
    }
  }
  STRATA_UNROLL
  for (int s = 0; s < kStrips; ++s) {
    const int64_t first = row + s * kStripRows;
    const float* bias = a.bias == nullptr ? nullptr : a.bias + first;
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t)
      store_rows(y[s][t], bias, a.rows - first, a.y + (token + t) * a.y_stride + first);
  }
}

template <TensorType kType, int kStrips>
void float_strips(const MatmulArgs& a, const std::byte* strip, int64_t row) {
  int64_t token = 0;
  for (; token + 4 <= a.tokens; token += 4) float_tile<kType, kStrips, 4>(a, strip, row, token);
  for (; token < a.tokens; ++token) float_tile<kType, kStrips, 1>(a, strip, row, token);
}

template <TensorType kType>
void matmul_float(const MatmulArgs& a) noexcept {
  const std::byte* strip = a.weights;
  int64_t row = 0;
  if (a.tokens == 1) {
    for (; row + 4 * kStripRows <= a.rows; row += 4 * kStripRows, strip += 4 * a.strip_bytes)
      float_strips<kType, 4>(a, strip, row);
  }
  for (; row + 2 * kStripRows <= a.rows; row += 2 * kStripRows, strip += 2 * a.strip_bytes)
    float_strips<kType, 2>(a, strip, row);
  for (; row < a.rows; row += kStripRows, strip += a.strip_bytes)
    float_strips<kType, 1>(a, strip, row);
}

constexpr MatmulKernels make_matmul_kernels() {
  // In the order of TensorType.
  return {
      {matmul_float<TensorType::f32>, matmul_float<TensorType::f16>, matmul_float<TensorType::bf16>,
       matmul_quantised<TensorType::q4_0>, matmul_quantised<TensorType::q4_1>,
       matmul_quantised<TensorType::q5_0>, matmul_quantised<TensorType::q5_1>,
       matmul_quantised<TensorType::q8_0>, matmul_quantised<TensorType::q2_k>,
       matmul_quantised<TensorType::q3_k>, matmul_quantised<TensorType::q4_k>,
       matmul_quantised<TensorType::q5_k>, matmul_quantised<TensorType::q6_k>,
       matmul_quantised<TensorType::iq4_nl>, matmul_quantised<TensorType::iq4_xs>},
      quantize_row};
}
