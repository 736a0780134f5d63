// Included by isa_*_matmul.cpp after matmul_format.inl.h, whose formulas hold here too: the same
// sums in the same order, so the same bits.
//
// Many tokens: vectors of strips are unpacked once to the first-level cache, as much of their width
// as fits there, and tiles of 4 or 5 tokens x kPanelVectors vectors are made from it. A vector of
// codes then serves several tokens and four activations several vectors, which halves the loads:
// they, not the arithmetic, bound a tile that holds its codes in registers.

// Vectors unpacked together. With 5 tokens 10 sums, 5 activations and codes are all 16 registers of
// AVX2; other shapes were slower there (6 x 2, 8 x 2, 6 tokens x 1) or no faster (3 x 3, 2 x 4).
constexpr int kPanelVectors = 2;
// Tokens whose unfinished sums wait (6 KB) while the next columns are unpacked, at most; half as
// many took 4 % longer.
constexpr int kPanelTokens = 100;
// Groups of 32 columns unpacked at a time, at most: about 10 KB.
constexpr int kPanelGroups = 16 / kStrips;
// Below this many tokens unpacking to memory costs more than it saves. 32 registers hold a vector's
// codes and the sums of 16 tokens (kTileTokens), which are as fast as a panel of 32.
constexpr int kLeastPanelTokens = kStrips == 1 ? 12 : 32;

// Formats that need further sums in 32 bits have fewer registers left.
template <typename F>
constexpr int panel_tile_tokens() {
  return addable(F::kShape.codes, F::kSigned) == 8 && !F::kPer16 ? 5 : 4;
}

// An f16 scale for each block, and no integer ones.
constexpr bool has_plain_blocks(const PackedShape& shape) { return shape.scale_groups == 0; }

// One for each vector of rows; nothing where a format has no such field.
template <bool kPresent>
struct FloatPerVector {
  Floats of[kPanelVectors];
};
template <>
struct FloatPerVector<false> {};
template <bool kPresent>
struct WordsPerVector {
  Words of[kPanelVectors];
};
template <>
struct WordsPerVector<false> {};

// All rows x 32 columns, what a tile reads of them close together: vectors a power of two apart
// would fall on the same few sets of the cache.
template <typename F>
struct PanelGroup {
  static constexpr bool kPlain = has_plain_blocks(F::kShape);
  static constexpr bool kOffsets = !kPlain && F::kShape.has_m;
  Bytes codes[8][kPanelVectors];
  [[no_unique_address]] FloatPerVector<kPlain> d;
  [[no_unique_address]] FloatPerVector<kPlain && F::kShape.has_m> m;
  [[no_unique_address]] WordsPerVector<!kPlain> first;
  [[no_unique_address]] WordsPerVector<!kPlain && F::kPer16> second;
  [[no_unique_address]] WordsPerVector<!kPlain && F::kBias != 0> biased;
  [[no_unique_address]] FloatPerVector<kOffsets && !F::kPer16> offsets;      // Q4_K, Q5_K
  [[no_unique_address]] WordsPerVector<kOffsets && F::kPer16> pair_offsets;  // Q2_K
};

// d and dmin of 256 columns.
struct PanelBlock {
  Floats d[kPanelVectors];
  Floats dmin[kPanelVectors];
};

template <typename F>
struct Panel {
  PanelGroup<F> groups[kPanelGroups];
  PanelBlock blocks[has_plain_blocks(F::kShape) ? 1 : kPanelGroups / F::kUnit];
};

// `count` groups of vector v; w: the first group's block (formats of 256: a whole block).
template <typename F>
void unpack_vector(Strips w, int count, int v, Panel<F>& panel) {
  constexpr int kUnit = F::kUnit;
  [[maybe_unused]] Integers<F::kSixBits> integers;  // of the block
  for (int b = 0; b < count; ++b) {
    PanelGroup<F>& group = panel.groups[b];
    const int in_block = b % kUnit;
    const Strips planes = w + (F::kHeaderBytes + F::kCodeBytes * in_block);
    prefetch_ahead(planes);
    Bytes codes[8];
    load_codes<F>(planes, codes);
    STRATA_UNROLL
    for (int g = 0; g < 8; ++g) group.codes[g][v] = codes[g];
    if constexpr (has_plain_blocks(F::kShape)) {
      group.d.of[v] = f_load_f16(w);
      if constexpr (F::kShape.has_m) group.m.of[v] = f_load_f16(w + F::kMBytes);
    } else {
      if (in_block == 0) load_integers(w + F::kScaleBytes, integers);
      const GroupScales<F> scales = group_scales<F>(integers, in_block);
      group.first.of[v] = scales.first;
      if constexpr (F::kPer16) group.second.of[v] = scales.second;
      if constexpr (F::kBias != 0) group.biased.of[v] = biased_scales<F>(scales);
      if constexpr (F::kShape.has_m && F::kPer16)
        group.pair_offsets.of[v] = pair_offsets(integers, in_block);
      if constexpr (F::kShape.has_m && !F::kPer16)
        group.offsets.of[v] = group_offsets(integers, in_block);
      if (in_block == 0) panel.blocks[b / kUnit].d[v] = f_load_f16(w);
      if constexpr (F::kShape.has_m)
        if (in_block == 0) panel.blocks[b / kUnit].dmin[v] = f_load_f16(w + F::kMBytes);
    }
    if (in_block == kUnit - 1) w = w + (F::kHeaderBytes + kUnit * F::kCodeBytes);
  }
}

// Integer sums of one group of columns, scaled by the integer scales and freed of the bias.
template <typename F, int kTokens>
STRATA_SIMD void panel_dots(const Panel<F>& panel, int b,
                            const ActivationBlock* const (&x)[kTokens],
                            Ints (&sum)[kTokens][kPanelVectors]) {
  constexpr bool kScaled = !has_plain_blocks(F::kShape);
  constexpr int kAddable = addable(F::kShape.codes, F::kSigned);
  constexpr int kRun = F::kPer16 && kAddable > 4 ? 4 : kAddable;
  STRATA_UNROLL
  for (int first = 0; first < 8; first += kRun) {
    Dots dots[kTokens][kPanelVectors];
    STRATA_UNROLL
    for (int g = first; g < first + kRun; ++g) STRATA_UNROLL
    for (int v = 0; v < kPanelVectors; ++v) {
      const Bytes codes = panel.groups[b].codes[g][v];
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const int8_t* q = x[t]->q + 4 * g;
        dots[t][v] =
            g == first ? dot<F::kSigned>(codes, q) : add_dot<F::kSigned>(dots[t][v], codes, q);
        pin(dots[t][v]);
      }
    }
    STRATA_UNROLL
    for (int v = 0; v < kPanelVectors; ++v) {
      Words factors{};
      if constexpr (kScaled) {
        if constexpr (F::kPer16)
          factors = first < 4 ? panel.groups[b].first.of[v] : panel.groups[b].second.of[v];
        else
          factors = panel.groups[b].first.of[v];
      }
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const Ints part = scale_dots<kScaled>(dots[t][v], factors);
        sum[t][v] = first == 0 ? part : i_add(sum[t][v], part);
      }
    }
  }
  if constexpr (F::kBias != 0) {
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const Words sums = w_broadcast_pair(x[t]->sums);
      STRATA_UNROLL
      for (int v = 0; v < kPanelVectors; ++v) {
        if constexpr (kScaled)
          sum[t][v] = i_sub(sum[t][v], i_pair_dot(sums, panel.groups[b].biased.of[v]));
        else
          sum[t][v] = i_sub(sum[t][v], i_pair_dot(sums, w_set(F::kBias)));
      }
    }
  }
}

template <typename F, int kTokens>
STRATA_SIMD void panel_tile_plain(const Panel<F>& panel, int groups, const ActivationBlock* x,
                                  int64_t x_stride, Floats (&y)[kTokens][kPanelVectors]) {
  for (int b = 0; b < groups; ++b) {
    const ActivationBlock* block[kTokens];
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) block[t] = x + t * x_stride + b;
    Ints sum[kTokens][kPanelVectors];
    panel_dots<F>(panel, b, block, sum);
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const Floats scale = f_broadcast(&block[t]->scale);
      const Floats scaled_sum = f_broadcast(&block[t]->scaled_sum);
      STRATA_UNROLL
      for (int v = 0; v < kPanelVectors; ++v) {
        const PanelGroup<F>& w = panel.groups[b];
        y[t][v] = f_fma(w.d.of[v], f_mul(f_from_int(sum[t][v]), scale), y[t][v]);
        if constexpr (F::kShape.has_m) y[t][v] = f_fma(w.m.of[v], scaled_sum, y[t][v]);
      }
    }
  }
}

template <typename F, int kTokens>
STRATA_SIMD void panel_tile_256(const Panel<F>& panel, int groups, const ActivationBlock* x,
                                int64_t x_stride, Floats (&y)[kTokens][kPanelVectors]) {
  for (int first = 0; first < groups; first += 8) {
    Floats sums[kTokens][kPanelVectors], offsets[kTokens][kPanelVectors];
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) STRATA_UNROLL
    for (int v = 0; v < kPanelVectors; ++v) sums[t][v] = offsets[t][v] = f_zero();
    for (int b = first; b < first + 8; ++b) {
      const ActivationBlock* block[kTokens];
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) block[t] = x + t * x_stride + b;
      Ints sum[kTokens][kPanelVectors];
      panel_dots<F>(panel, b, block, sum);
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const Floats scale = f_broadcast(&block[t]->scale);
        STRATA_UNROLL
        for (int v = 0; v < kPanelVectors; ++v) {
          const PanelGroup<F>& w = panel.groups[b];
          sums[t][v] = f_fma(f_from_int(sum[t][v]), scale, sums[t][v]);
          if constexpr (F::kShape.has_m && F::kPer16) {
            const Ints o = i_pair_dot(w_broadcast_pair(block[t]->sums), w.pair_offsets.of[v]);
            offsets[t][v] = f_fma(f_from_int(o), scale, offsets[t][v]);
          }
          if constexpr (F::kShape.has_m && !F::kPer16)
            offsets[t][v] =
                f_fma(w.offsets.of[v], f_broadcast(&block[t]->scaled_sum), offsets[t][v]);
        }
      }
    }
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t) STRATA_UNROLL
    for (int v = 0; v < kPanelVectors; ++v) {
      const PanelBlock& w = panel.blocks[first / 8];
      y[t][v] = f_fma(w.d[v], sums[t][v], y[t][v]);
      if constexpr (F::kShape.has_m) y[t][v] = f_fnma(w.dmin[v], offsets[t][v], y[t][v]);
    }
  }
}

// Goes on with the sums of kTokens tokens.
template <typename F, int kTokens>
void panel_tile(const Panel<F>& panel, int groups, const ActivationBlock* x, int64_t x_stride,
                Floats (*sums)[kPanelVectors]) {
  Floats y[kTokens]
          [kPanelVectors];  // of its own: what is stored through `sums` might be the panel's
  STRATA_UNROLL
  for (int t = 0; t < kTokens; ++t) STRATA_UNROLL
  for (int v = 0; v < kPanelVectors; ++v) y[t][v] = sums[t][v];
  if constexpr (has_plain_blocks(F::kShape))
    panel_tile_plain<F>(panel, groups, x, x_stride, y);
  else
    panel_tile_256<F>(panel, groups, x, x_stride, y);
  STRATA_UNROLL
  for (int t = 0; t < kTokens; ++t) STRATA_UNROLL
  for (int v = 0; v < kPanelVectors; ++v) sums[t][v] = y[t][v];
}

// All columns of the panel for `tokens` tokens: full tiles, then smaller ones.
template <typename F, int kTokens>
void panel_tiles(const Panel<F>& panel, int groups, const ActivationBlock* x, int64_t x_stride,
                 Floats (*sums)[kPanelVectors], int tokens) {
  int t = 0;
  for (; t + kTokens <= tokens; t += kTokens)
    panel_tile<F, kTokens>(panel, groups, x + t * x_stride, x_stride, sums + t);
  if constexpr (kTokens > 1)
    panel_tiles<F, kTokens / 2>(panel, groups, x + t * x_stride, x_stride, sums + t, tokens - t);
}

// Rows [row, row + kPanelVectors * kLanes) of tokens [token, token + tokens), tokens <=
// kPanelTokens. Where there are no more rows the first are computed again, and not stored.
template <typename F>
void panel_rows(const MatmulArgs& a, int64_t row, int64_t token, int tokens) {
  constexpr int kUnit = F::kUnit;
  constexpr int kBlockBytes = F::kHeaderBytes + kUnit * F::kCodeBytes;
  Strips strips[kPanelVectors];
  for (int v = 0; v < kPanelVectors; ++v)
    strips[v] = strips_at(a, row + v * kLanes < a.rows ? row + v * kLanes : row);
  Panel<F> panel;
  Floats y[kPanelTokens][kPanelVectors];
  for (int t = 0; t < tokens; ++t)
    for (int v = 0; v < kPanelVectors; ++v) y[t][v] = f_zero();
  const int all = static_cast<int>(a.in / 32);
  // Pieces of about the same width.
  const int pieces = (all + kPanelGroups - 1) / kPanelGroups;
  const int piece = ((all + pieces - 1) / pieces + kUnit - 1) / kUnit * kUnit;
  for (int first = 0; first < all; first += piece) {
    const int groups = first + piece < all ? piece : all - first;
    for (int v = 0; v < kPanelVectors; ++v)
      unpack_vector<F>(strips[v] + first / kUnit * kBlockBytes, groups, v, panel);
    // The results' lines, each of a page of its own, while the last columns are multiplied.
    if (first + piece >= all)
      for (int t = 0; t < tokens; ++t) prefetch_for_write(a.y + (token + t) * a.y_stride + row);
    const ActivationBlock* x = a.blocks + token * a.x_stride + first;
    panel_tiles<F, panel_tile_tokens<F>()>(panel, groups, x, a.x_stride, y, tokens);
  }
  for (int v = 0; v < kPanelVectors && row + v * kLanes < a.rows; ++v)
    for (int t = 0; t < tokens; ++t) store_results(a, y[t][v], row + v * kLanes, token + t);
}
