// Included by isa_*_matmul.cpp after matmul_format.inl.h, whose formulas hold here too: the same
// sums in the same order, so the same bits.
//
// Many tokens: a group of strips is unpacked once to the first-level cache, as much of its width as
// fits there, and tiles of 3 or 4 tokens x kPanelStrips strips are made from it. A vector of codes
// then serves several tokens and four activations several strips, which halves the loads: they, not
// the arithmetic, bound a tile that holds its codes in registers.

// Strips unpacked together. With 4 tokens 8 sums, 4 activations, codes and a product are 14 of 16
// registers; other shapes of about as many registers were no faster (3 x 3, 2 tokens x 4 strips).
constexpr int kPanelStrips = 2;
// Tokens whose unfinished sums wait (3 KB) while the next columns are unpacked.
constexpr int kPanelTokens = 48;
// Groups of 32 columns unpacked at a time, at most: with 2 strips about 10 KB.
constexpr int kPanelGroups = 16;
// Below this many tokens unpacking to memory costs more than it saves.
constexpr int kLeastPanelTokens = 12;

// Formats that need further sums in 32 bits have fewer registers left.
template <typename F>
constexpr int panel_tile_tokens() {
  return addable(F::kShape.codes, F::kSigned) == 8 && !F::kPer16 ? 4 : 3;
}

constexpr bool has_block_of_32(const PackedShape& shape) { return shape.scale_groups == 0; }

// One vector for each strip; nothing where a format has no such field.
template <bool kPresent>
struct FloatPerStrip {
  F8 of[kPanelStrips];
};
template <>
struct FloatPerStrip<false> {};
template <bool kPresent>
struct WordsPerStrip {
  W16 of[kPanelStrips];
};
template <>
struct WordsPerStrip<false> {};

// Strips x 8 rows x 32 columns, what a tile reads of them close together: strips a power of two
// apart would fall on the same few sets of the cache.
template <typename F>
struct PanelGroup {
  static constexpr bool k32 = has_block_of_32(F::kShape);
  static constexpr bool kOffsets = !k32 && F::kShape.has_m;
  B32 codes[8][kPanelStrips];
  [[no_unique_address]] FloatPerStrip<k32> d;
  [[no_unique_address]] FloatPerStrip<k32 && F::kShape.has_m> m;
  [[no_unique_address]] WordsPerStrip<!k32> first;
  [[no_unique_address]] WordsPerStrip<!k32 && F::kPer16> second;
  [[no_unique_address]] WordsPerStrip<!k32 && F::kPer16 && F::kTraits.bias != 0> biased;
  [[no_unique_address]] FloatPerStrip<kOffsets && !F::kPer16> offsets;      // Q4_K, Q5_K
  [[no_unique_address]] WordsPerStrip<kOffsets && F::kPer16> pair_offsets;  // Q2_K
};

// d and dmin of 256 columns.
struct PanelBlock {
  F8 d[kPanelStrips];
  F8 dmin[kPanelStrips];
};

template <typename F>
struct Panel {
  PanelGroup<F> groups[kPanelGroups];
  PanelBlock blocks[has_block_of_32(F::kShape) ? 1 : kPanelGroups / 8];
};

// `count` groups of strip s; w: the first group's block (formats of 256: a whole block).
template <typename F>
void unpack_strip(const std::byte* w, int count, int s, Panel<F>& panel) {
  constexpr int kUnit = has_block_of_32(F::kShape) ? 1 : 8;  // groups of a block
  for (int b = 0; b < count; ++b) {
    PanelGroup<F>& group = panel.groups[b];
    const int in_block = b % kUnit;
    const std::byte* planes = w + F::kHeaderBytes + F::kCodeBytes * in_block;
    prefetch_ahead(planes);
    B32 codes[8];
    load_codes<F>(planes, codes);
    STRATA_UNROLL
    for (int g = 0; g < 8; ++g) group.codes[g][s] = codes[g];
    if constexpr (kUnit == 1) {
      group.d.of[s] = f8_load_f16(w);
      if constexpr (F::kShape.has_m) group.m.of[s] = f8_load_f16(w + F::kMBytes);
    } else {
      const GroupScales<F> scales = load_scales<F>(w, in_block);
      group.first.of[s] = scales.first;
      if constexpr (F::kPer16) group.second.of[s] = scales.second;
      if constexpr (F::kPer16 && F::kTraits.bias != 0)
        group.biased.of[s] = biased_scales<F>(scales);
      if constexpr (F::kShape.has_m && F::kPer16)
        group.pair_offsets.of[s] = load_pair_offsets<F>(w, in_block);
      if constexpr (F::kShape.has_m && !F::kPer16)
        group.offsets.of[s] = f8_load_u8(w + F::kOffsetBytes + 8 * in_block);
      if (in_block == 0) panel.blocks[b / kUnit].d[s] = f8_load_f16(w);
      if constexpr (F::kShape.has_m)
        if (in_block == 0) panel.blocks[b / kUnit].dmin[s] = f8_load_f16(w + F::kMBytes);
    }
    if (in_block == kUnit - 1) w += F::kHeaderBytes + kUnit * F::kCodeBytes;
  }
}

// Integer sums of one group of columns, scaled by the integer scales and freed of the bias.
template <typename F, int kTokens>
STRATA_SIMD void panel_dots(const Panel<F>& panel, int b,
                            const ActivationBlock* const (&x)[kTokens],
                            I8 (&sum)[kTokens][kPanelStrips]) {
  constexpr int kAddable = addable(F::kShape.codes, F::kSigned);
  constexpr int kRun = F::kPer16 && kAddable > 4 ? 4 : kAddable;
  const W16 one = w16_set(1);
  STRATA_UNROLL
  for (int first = 0; first < 8; first += kRun) {
    W16 words[kTokens][kPanelStrips];
    STRATA_UNROLL
    for (int g = first; g < first + kRun; ++g) STRATA_UNROLL
    for (int s = 0; s < kPanelStrips; ++s) {
      const B32 codes = panel.groups[b].codes[g][s];
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const W16 dot = dot_four<F>(codes, x[t]->q + 4 * g);
        words[t][s] = g == first ? dot : w16_add(words[t][s], dot);
        pin(words[t][s]);
      }
    }
    STRATA_UNROLL
    for (int s = 0; s < kPanelStrips; ++s) {
      W16 factors = one;
      if constexpr (!has_block_of_32(F::kShape)) {
        if constexpr (F::kPer16)
          factors = first < 4 ? panel.groups[b].first.of[s] : panel.groups[b].second.of[s];
        else
          factors = panel.groups[b].first.of[s];
      }
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const I8 part = i8_pair_dot(words[t][s], factors);
        sum[t][s] = first == 0 ? part : i8_add(sum[t][s], part);
      }
    }
  }
  if constexpr (F::kTraits.bias != 0) {
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const W16 sums = w16_broadcast_pair(x[t]->sums);
      STRATA_UNROLL
      for (int s = 0; s < kPanelStrips; ++s) {
        if constexpr (has_block_of_32(F::kShape))
          sum[t][s] = i8_sub(sum[t][s], i8_pair_dot(sums, w16_set(F::kTraits.bias)));
        else if constexpr (F::kPer16)
          sum[t][s] = i8_sub(sum[t][s], i8_pair_dot(sums, panel.groups[b].biased.of[s]));
      }
    }
  }
}

template <typename F, int kTokens>
STRATA_SIMD void panel_tile_32(const Panel<F>& panel, int groups, const ActivationBlock* x,
                               int64_t x_stride, F8 (&y)[kTokens][kPanelStrips]) {
  for (int b = 0; b < groups; ++b) {
    const ActivationBlock* block[kTokens];
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) block[t] = x + t * x_stride + b;
    I8 sum[kTokens][kPanelStrips];
    panel_dots<F>(panel, b, block, sum);
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const F8 scale = f8_broadcast(&block[t]->scale);
      const F8 scaled_sum = f8_broadcast(&block[t]->scaled_sum);
      STRATA_UNROLL
      for (int s = 0; s < kPanelStrips; ++s) {
        const PanelGroup<F>& w = panel.groups[b];
        y[t][s] = f8_fma(w.d.of[s], f8_mul(f8_from_int(sum[t][s]), scale), y[t][s]);
        if constexpr (F::kShape.has_m) y[t][s] = f8_fma(w.m.of[s], scaled_sum, y[t][s]);
      }
    }
  }
}

template <typename F, int kTokens>
STRATA_SIMD void panel_tile_256(const Panel<F>& panel, int groups, const ActivationBlock* x,
                                int64_t x_stride, F8 (&y)[kTokens][kPanelStrips]) {
  for (int first = 0; first < groups; first += 8) {
    F8 sums[kTokens][kPanelStrips], offsets[kTokens][kPanelStrips];
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) STRATA_UNROLL
    for (int s = 0; s < kPanelStrips; ++s) sums[t][s] = offsets[t][s] = f8_zero();
    for (int b = first; b < first + 8; ++b) {
      const ActivationBlock* block[kTokens];
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) block[t] = x + t * x_stride + b;
      I8 sum[kTokens][kPanelStrips];
      panel_dots<F>(panel, b, block, sum);
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const F8 scale = f8_broadcast(&block[t]->scale);
        STRATA_UNROLL
        for (int s = 0; s < kPanelStrips; ++s) {
          const PanelGroup<F>& w = panel.groups[b];
          sums[t][s] = f8_fma(f8_from_int(sum[t][s]), scale, sums[t][s]);
          if constexpr (F::kShape.has_m && F::kPer16) {
            const I8 o = i8_pair_dot(w16_broadcast_pair(block[t]->sums), w.pair_offsets.of[s]);
            offsets[t][s] = f8_fma(f8_from_int(o), scale, offsets[t][s]);
          }
          if constexpr (F::kShape.has_m && !F::kPer16)
            offsets[t][s] =
                f8_fma(w.offsets.of[s], f8_broadcast(&block[t]->scaled_sum), offsets[t][s]);
        }
      }
    }
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) STRATA_UNROLL
    for (int s = 0; s < kPanelStrips; ++s) {
      const PanelBlock& w = panel.blocks[first / 8];
      y[t][s] = f8_fma(w.d[s], sums[t][s], y[t][s]);
      if constexpr (F::kShape.has_m) y[t][s] = f8_fnma(w.dmin[s], offsets[t][s], y[t][s]);
    }
  }
}

// Goes on with the sums of kTokens tokens.
template <typename F, int kTokens>
void panel_tile(const Panel<F>& panel, int groups, const ActivationBlock* x, int64_t x_stride,
                F8 (*sums)[kPanelStrips]) {
  F8 y[kTokens][kPanelStrips];  // of its own: what is stored through `sums` might be the panel's
  STRATA_UNROLL
  for (int t = 0; t < kTokens; ++t) STRATA_UNROLL
  for (int s = 0; s < kPanelStrips; ++s) y[t][s] = sums[t][s];
  if constexpr (has_block_of_32(F::kShape))
    panel_tile_32<F>(panel, groups, x, x_stride, y);
  else
    panel_tile_256<F>(panel, groups, x, x_stride, y);
  STRATA_UNROLL
  for (int t = 0; t < kTokens; ++t) STRATA_UNROLL
  for (int s = 0; s < kPanelStrips; ++s) sums[t][s] = y[t][s];
}

// Rows [row, row + 8 kPanelStrips) of tokens [token, token + tokens), tokens <= kPanelTokens.
template <typename F>
void panel_rows(const MatmulArgs& a, const std::byte* strips, int64_t row, int64_t token,
                int tokens) {
  constexpr int kUnit = has_block_of_32(F::kShape) ? 1 : 8;  // groups of a block
  constexpr int kBlockBytes = F::kHeaderBytes + kUnit * F::kCodeBytes;
  Panel<F> panel;
  F8 y[kPanelTokens][kPanelStrips];
  for (int t = 0; t < tokens; ++t)
    for (int s = 0; s < kPanelStrips; ++s) y[t][s] = f8_zero();
  const int all = static_cast<int>(a.in / 32);
  // Pieces of about the same width.
  const int pieces = (all + kPanelGroups - 1) / kPanelGroups;
  const int piece = ((all + pieces - 1) / pieces + kUnit - 1) / kUnit * kUnit;
  for (int first = 0; first < all; first += piece) {
    const int groups = first + piece < all ? piece : all - first;
    for (int s = 0; s < kPanelStrips; ++s)
      unpack_strip<F>(strips + s * a.strip_bytes + first / kUnit * kBlockBytes, groups, s, panel);
    const ActivationBlock* x = a.blocks + token * a.x_stride + first;
    constexpr int kTokens = panel_tile_tokens<F>();
    int t = 0;
    for (; t + kTokens <= tokens; t += kTokens)
      panel_tile<F, kTokens>(panel, groups, x + t * a.x_stride, a.x_stride, y + t);
    for (; t < tokens; ++t) panel_tile<F, 1>(panel, groups, x + t * a.x_stride, a.x_stride, y + t);
  }
  for (int t = 0; t < tokens; ++t)
    for (int s = 0; s < kPanelStrips; ++s)
      store_results(a, y[t][s], row + s * kStripRows, token + t);
}
