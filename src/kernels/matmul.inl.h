// Included by isa_*_matmul.cpp after matmul_format.inl.h and matmul_panel.inl.h: the products of
// few tokens, which keep a strip's codes in registers, the float products, and the table of all.

// ---- formats whose blocks have an f16 scale alone ----

template <typename F, int kTokens>
STRATA_SIMD void accumulate_plain(Strips w, int64_t in, const ActivationBlock* x, int64_t x_stride,
                                  Floats (&y)[kTokens]) {
  const Words bias = w_set(F::kBias);
  for (int64_t b = 0; b < in / 32; w = w + (F::kHeaderBytes + F::kUnit * F::kCodeBytes)) {
    const Floats d = f_load_f16(w);
    Floats m = f_zero();
    if constexpr (F::kShape.has_m) m = f_load_f16(w + F::kMBytes);
    for (int group = 0; group < F::kUnit; ++group, ++b) {
      const Strips planes = w + (F::kHeaderBytes + F::kCodeBytes * group);
      prefetch_ahead(planes);
      Bytes codes[8];
      load_codes<F>(planes, codes);
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const ActivationBlock& block = x[t * x_stride + b];
        Ints sum = dot_scaled<F, 8>(codes, block.q, Words{});
        if constexpr (F::kBias != 0)
          sum = i_sub(sum, i_pair_dot(w_broadcast_pair(block.sums), bias));
        y[t] = f_fma(d, f_mul(f_from_int(sum), f_broadcast(&block.scale)), y[t]);
        if constexpr (F::kShape.has_m) y[t] = f_fma(m, f_broadcast(&block.scaled_sum), y[t]);
      }
    }
  }
}

// ---- formats with a block of 256 ----

template <typename F>
STRATA_SIMD Ints dot_group(const Bytes (&codes)[8], const ActivationBlock& block,
                           const GroupScales<F>& scales, Words biased) {
  Ints sum;
  if constexpr (F::kPer16)
    sum = i_add(dot_scaled<F, 4>(codes, block.q, scales.first),
                dot_scaled<F, 4>(codes + 4, block.q + 16, scales.second));
  else
    sum = dot_scaled<F, 8>(codes, block.q, scales.first);
  if constexpr (F::kBias != 0) sum = i_sub(sum, i_pair_dot(w_broadcast_pair(block.sums), biased));
  return sum;
}

template <typename F, int kTokens>
STRATA_SIMD void accumulate_256(Strips w, int64_t in, const ActivationBlock* x, int64_t x_stride,
                                Floats (&y)[kTokens]) {
  for (int64_t k = 0; k < in; k += 256, x += 8, w = w + (F::kHeaderBytes + 8 * F::kCodeBytes)) {
    Integers<F::kSixBits> integers;
    load_integers(w + F::kScaleBytes, integers);
    Floats sums[kTokens];
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) sums[t] = f_zero();
    for (int b = 0; b < 8; ++b) {
      const Strips planes = w + (F::kHeaderBytes + F::kCodeBytes * b);
      prefetch_ahead(planes);
      Bytes codes[8];
      load_codes<F>(planes, codes);
      const GroupScales<F> scales = group_scales<F>(integers, b);
      Words biased{};
      if constexpr (F::kBias != 0) biased = biased_scales<F>(scales);
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const ActivationBlock& block = x[t * x_stride + b];
        const Ints sum = dot_group<F>(codes, block, scales, biased);
        sums[t] = f_fma(f_from_int(sum), f_broadcast(&block.scale), sums[t]);
      }
    }
    const Floats d = f_load_f16(w);
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) y[t] = f_fma(d, sums[t], y[t]);
    if constexpr (F::kShape.has_m) {
      const Floats dmin = f_load_f16(w + F::kMBytes);
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) sums[t] = f_zero();
      for (int b = 0; b < 8; ++b) {
        if constexpr (F::kPer16) {
          const Words offsets = pair_offsets(integers, b);
          STRATA_UNROLL
          for (int t = 0; t < kTokens; ++t) {
            const ActivationBlock& block = x[t * x_stride + b];
            const Ints sum = i_pair_dot(w_broadcast_pair(block.sums), offsets);
            sums[t] = f_fma(f_from_int(sum), f_broadcast(&block.scale), sums[t]);
          }
        } else {
          const Floats offsets = group_offsets(integers, b);
          STRATA_UNROLL
          for (int t = 0; t < kTokens; ++t)
            sums[t] = f_fma(offsets, f_broadcast(&x[t * x_stride + b].scaled_sum), sums[t]);
        }
      }
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) y[t] = f_fnma(dmin, sums[t], y[t]);
    }
  }
}

// ---- quantised product ----

template <typename F, int kTokens>
void quantised_tile(const MatmulArgs& a, Strips strips, int64_t row, int64_t token) {
  Floats y[kTokens];
  STRATA_UNROLL
  for (int t = 0; t < kTokens; ++t) y[t] = f_zero();
  const ActivationBlock* x = a.blocks + token * a.x_stride;
  if constexpr (F::kShape.scale_groups == 0)
    accumulate_plain<F, kTokens>(strips, a.in, x, a.x_stride, y);
  else
    accumulate_256<F, kTokens>(strips, a.in, x, a.x_stride, y);
  STRATA_UNROLL
  for (int t = 0; t < kTokens; ++t) store_results(a, y[t], row, token + t);
}

// The tokens from `token` on: full tiles, then tiles of half the size, and so on.
template <typename F, int kTokens>
void quantised_tokens(const MatmulArgs& a, Strips strips, int64_t row, int64_t token) {
  for (; token + kTokens <= a.tokens; token += kTokens)
    quantised_tile<F, kTokens>(a, strips, row, token);
  if constexpr (kTokens > 1) quantised_tokens<F, kTokens / 2>(a, strips, row, token);
}

// Up to this many tokens memory is what a product waits for, and one strip after the other comes
// faster than two side by side: a vector of one strip is better than one of two.
constexpr int kFewTokens = 4;

template <TensorType kType, const MatmulKernels* kFew>
void matmul_quantised(const MatmulArgs& a) noexcept {
  using F = Format<kType>;
  if constexpr (kFew != nullptr)
    if (a.tokens <= kFewTokens) return kFew->matmul[static_cast<int>(kType)](a);
  int64_t row = 0;
  if (a.tokens >= kLeastPanelTokens) {
    constexpr int64_t kRows = kPanelVectors * kLanes;
    constexpr int kTile = panel_tile_tokens<F>();
    // Panels of about the same number of tokens, of full tiles.
    const int64_t panels = (a.tokens + kPanelTokens - 1) / kPanelTokens;
    const int64_t panel = ((a.tokens + panels - 1) / panels + kTile - 1) / kTile * kTile;
    // A panel that is at most half full costs more than it saves.
    for (; row + kRows / 2 < a.rows; row += kRows)
      for (int64_t token = 0; token < a.tokens; token += panel) {
        const int64_t left = a.tokens - token;
        panel_rows<F>(a, row, token, static_cast<int>(left < panel ? left : panel));
      }
  }
  for (; row < a.rows; row += kLanes)
    quantised_tokens<F, kTileTokens>(a, strips_at(a, row), row, 0);
}

// ---- float product ----

template <TensorType kType>
STRATA_SIMD Floats load_weights(Strips p) {
  if constexpr (kType == TensorType::f16) return f_load_f16(p);
  if constexpr (kType == TensorType::bf16) return f_load_bf16(p);
  if constexpr (kType == TensorType::f32) return f_load_f32(p);
}

// kVectors x kTokens chains of fused multiply-adds: enough of them to hide the
// latency of one.
template <TensorType kType, int kVectors, int kTokens>
void float_tile(const MatmulArgs& a, int64_t row, int64_t token) {
  constexpr int64_t kColumnBytes = kStripRows * (kType == TensorType::f32 ? 4 : 2);
  Strips strips[kVectors];
  STRATA_UNROLL
  for (int v = 0; v < kVectors; ++v) strips[v] = strips_at(a, row + v * kLanes);
  Floats y[kVectors][kTokens];
  STRATA_UNROLL
  for (int v = 0; v < kVectors; ++v) STRATA_UNROLL
  for (int t = 0; t < kTokens; ++t) y[v][t] = f_zero();
  const float* x = a.floats + token * a.x_stride;
  for (int64_t k = 0; k < a.in; ++k) {
    Floats w[kVectors];
    STRATA_UNROLL
    for (int v = 0; v < kVectors; ++v) w[v] = load_weights<kType>(strips[v] + k * kColumnBytes);
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const Floats value = f_broadcast(x + t * a.x_stride + k);
      STRATA_UNROLL
      for (int v = 0; v < kVectors; ++v) y[v][t] = f_fma(w[v], value, y[v][t]);
    }
  }
  store_tile<kVectors, kTokens>(a, y, row, token);
}

template <TensorType kType, int kVectors>
void float_vectors(const MatmulArgs& a, int64_t row) {
  int64_t token = 0;
  for (; token + 4 <= a.tokens; token += 4) float_tile<kType, kVectors, 4>(a, row, token);
  for (; token < a.tokens; ++token) float_tile<kType, kVectors, 1>(a, row, token);
}

template <TensorType kType>
void matmul_float(const MatmulArgs& a) noexcept {
  int64_t row = 0;
  if (a.tokens == 1) {
    for (; row + 4 * kLanes <= a.rows; row += 4 * kLanes) float_vectors<kType, 4>(a, row);
  }
  for (; row + 2 * kLanes <= a.rows; row += 2 * kLanes) float_vectors<kType, 2>(a, row);
  for (; row < a.rows; row += kLanes) float_vectors<kType, 1>(a, row);
}

// In the order of TensorType. Without kFloats: the quantised products alone, for levels that take
// the others from a lower one. kFew: the table whose quantised products few tokens take.
template <bool kFloats, const MatmulKernels* kFew = nullptr>
constexpr MatmulKernels make_matmul_kernels(QuantizeRowFunction quantize) {
  MatmulKernels kernels = {{nullptr,
                            nullptr,
                            nullptr,
                            matmul_quantised<TensorType::q4_0, kFew>,
                            matmul_quantised<TensorType::q4_1, kFew>,
                            matmul_quantised<TensorType::q5_0, kFew>,
                            matmul_quantised<TensorType::q5_1, kFew>,
                            matmul_quantised<TensorType::q8_0, kFew>,
                            matmul_quantised<TensorType::q2_k, kFew>,
                            matmul_quantised<TensorType::q3_k, kFew>,
                            matmul_quantised<TensorType::q4_k, kFew>,
                            matmul_quantised<TensorType::q5_k, kFew>,
                            matmul_quantised<TensorType::q6_k, kFew>,
                            matmul_quantised<TensorType::iq4_nl, kFew>,
                            matmul_quantised<TensorType::iq4_xs, kFew>,
                            matmul_quantised<TensorType::i8_g64, kFew>,
                            matmul_quantised<TensorType::i8_g128, kFew>,
                            matmul_quantised<TensorType::i4_g64, kFew>,
                            matmul_quantised<TensorType::i4_g128, kFew>,
                            matmul_quantised<TensorType::i4z_g64, kFew>,
                            matmul_quantised<TensorType::i4z_g128, kFew>},
                           quantize};
  if constexpr (kFloats) {
    kernels.matmul[static_cast<int>(TensorType::f32)] = matmul_float<TensorType::f32>;
    kernels.matmul[static_cast<int>(TensorType::f16)] = matmul_float<TensorType::f16>;
    kernels.matmul[static_cast<int>(TensorType::bf16)] = matmul_float<TensorType::bf16>;
  }
  return kernels;
}
