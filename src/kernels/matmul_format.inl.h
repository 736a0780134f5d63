// Included by isa_*_matmul.cpp inside strata's anonymous namespace, after one
// simd/lanes_*.h and one simd/dots_*.h.
//
// The 8 rows of each of kStrips strips are the lanes of a vector, so a result is made by one lane,
// columns in order. For one row and token, with the integer sums exact (vpmaddubsw adds
// two products in 16 bits and saturates; how many of its results may be added
// there follows from the codes' range, see addable()):
//
//   formats whose blocks have an f16 scale alone (of 32, 64 or 128 columns):
//                   for each group of 32:  y = fma(d, float(i) * scale, y);
//                                          y = fma(m, scaled_sum, y)
//                   i = sum of (code - bias) * q
//   formats of 256: for each group b of 32: s = fma(float(i_b), scale_b, s)
//                   i_b = sum of s[g] * (code - bias) * q
//                   then for each b:  o = fma(float(o[b]), scaled_sum_b, o)
//                   Q4_K, Q5_K
//                                     o = fma(float(sum of o[g] * q), scale_b,
//                                     o)   Q2_K
//                   y = fma(d, s, y);  y = fma(-dmin, o, y)
//   float types:    y = fma(w, x, y) for each column

constexpr int8_t kIq4Table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

// Weights are read once, in order; the processor's own prefetching stops at
// each 4 KB page. At 15 GB/s this is 0.2 us ahead, twice a memory's latency: a
// third of it, and decoding took 5 % longer.
constexpr int kPrefetchBytes = 3072;

STRATA_SIMD void prefetch_ahead(Strips w) {
  int64_t ahead = kPrefetchBytes;
  // Behind the end of a vector's strips lies the next vector's first, not the second one again.
  if (kStrips > 1 && w.first + kPrefetchBytes >= w.end) ahead += w.apart;
  for (int s = 0; s < kStrips; ++s)
    for (int line = 0; line < 3; ++line) prefetch(w.first + s * w.apart + ahead + 64 * line);
}

// What the codes of a type mean to the sums.
struct FormatTraits {
  int bias;     // the value of a code is code - bias
  bool lookup;  // the value is kIq4Table[code]
};
constexpr FormatTraits format_traits(TensorType type) {
  switch (type) {
    case TensorType::q4_0:
    case TensorType::i4_g64:
    case TensorType::i4_g128:
      return {8, false};
    case TensorType::q5_0:
      return {16, false};
    case TensorType::q6_k:
      return {32, false};
    case TensorType::q3_k:
      return {4, false};
    case TensorType::iq4_nl:
    case TensorType::iq4_xs:
      return {0, true};
    default:
      return {0, false};
  }
}

// Groups of 32 columns in a block of the packed form.
constexpr int groups_of_block(TensorType type) {
  switch (type) {
    case TensorType::i8_g64:
    case TensorType::i4_g64:
    case TensorType::i4z_g64:
      return 2;
    case TensorType::i8_g128:
    case TensorType::i4_g128:
    case TensorType::i4z_g128:
      return 4;
    default:
      return packed_shape(type).scale_groups == 0 ? 1 : 8;
  }
}

template <TensorType kType>
struct Format {
  static constexpr PackedShape kShape = packed_shape(kType);
  static constexpr int kUnit = groups_of_block(kType);
  static constexpr FormatTraits kTraits = format_traits(kType);
  static constexpr bool kHasSign = kTraits.lookup || kShape.codes == Codes::s8;
  static constexpr bool kSigned = kHasSign && !kUnsignedDots;
  // The value of what load_codes gives is it - kBias.
  static constexpr int kBias = kTraits.bias + (kHasSign && kUnsignedDots ? 128 : 0);
  static constexpr int kHeaderBytes = packed_header_bytes(kShape);
  static constexpr int kCodeBytes = code_bytes(kShape.codes);
  static constexpr int kMBytes = 16;                          // where m lies
  static constexpr int kScaleBytes = kShape.has_m ? 32 : 16;  // where the integer scales lie
  static constexpr bool kSixBits = kShape.integer_bits == 6;
  static constexpr bool kPer16 = kShape.scale_groups == 16;
};

// ---- codes: 8 vectors, vector g holds columns 4 g .. 4 g + 3 of each row ----

template <int kGroup>
STRATA_SIMD Bytes take_pair(Bytes plane) {  // two bits at 2 * kGroup, to the bottom
  return b_take<2 * kGroup, 3>(plane);
}
template <int kPlace, int kTo, int kMask>
STRATA_SIMD Bytes move_bits(Bytes plane) {  // bits at kPlace to kTo
  return b_take<kPlace - kTo, (kMask << kTo)>(plane);
}

STRATA_SIMD void unpack_low4(Strips p, Bytes (&c)[8]) {
  STRATA_UNROLL
  for (int i = 0; i < 4; ++i) {
    const Bytes plane = b_load(p + 32 * i);
    c[i] = b_take<0, 15>(plane);
    c[i + 4] = b_take<4, 15>(plane);
  }
}

template <Codes kCodes>
STRATA_SIMD void unpack_codes(Strips p, Bytes (&c)[8]) {
  if constexpr (kCodes == Codes::u2 || kCodes == Codes::u3) {
    STRATA_UNROLL
    for (int i = 0; i < 2; ++i) {
      const Bytes plane = b_load(p + 32 * i);
      c[4 * i] = take_pair<0>(plane);
      c[4 * i + 1] = take_pair<1>(plane);
      c[4 * i + 2] = take_pair<2>(plane);
      c[4 * i + 3] = take_pair<3>(plane);
    }
  }
  if constexpr (kCodes == Codes::u3) {
    const Bytes thirds = b_load(p + 64);
    c[0] = b_or(c[0], move_bits<0, 2, 1>(thirds));
    c[1] = b_or(c[1], move_bits<1, 2, 1>(thirds));
    c[2] = b_or(c[2], move_bits<2, 2, 1>(thirds));
    c[3] = b_or(c[3], move_bits<3, 2, 1>(thirds));
    c[4] = b_or(c[4], move_bits<4, 2, 1>(thirds));
    c[5] = b_or(c[5], move_bits<5, 2, 1>(thirds));
    c[6] = b_or(c[6], move_bits<6, 2, 1>(thirds));
    c[7] = b_or(c[7], move_bits<7, 2, 1>(thirds));
  }
  if constexpr (kCodes == Codes::u4 || kCodes == Codes::u5 || kCodes == Codes::u6)
    unpack_low4(p, c);
  if constexpr (kCodes == Codes::u5) {
    const Bytes fifths = b_load(p + 128);
    c[0] = b_or(c[0], move_bits<0, 4, 1>(fifths));
    c[1] = b_or(c[1], move_bits<1, 4, 1>(fifths));
    c[2] = b_or(c[2], move_bits<2, 4, 1>(fifths));
    c[3] = b_or(c[3], move_bits<3, 4, 1>(fifths));
    c[4] = b_or(c[4], move_bits<4, 4, 1>(fifths));
    c[5] = b_or(c[5], move_bits<5, 4, 1>(fifths));
    c[6] = b_or(c[6], move_bits<6, 4, 1>(fifths));
    c[7] = b_or(c[7], move_bits<7, 4, 1>(fifths));
  }
  if constexpr (kCodes == Codes::u6) {
    STRATA_UNROLL
    for (int i = 0; i < 2; ++i) {
      const Bytes high = b_load(p + 128 + 32 * i);
      c[4 * i] = b_or(c[4 * i], move_bits<0, 4, 3>(high));
      c[4 * i + 1] = b_or(c[4 * i + 1], move_bits<2, 4, 3>(high));
      c[4 * i + 2] = b_or(c[4 * i + 2], move_bits<4, 4, 3>(high));
      c[4 * i + 3] = b_or(c[4 * i + 3], move_bits<6, 4, 3>(high));
    }
  }
  if constexpr (kCodes == Codes::s8) STRATA_UNROLL
  for (int i = 0; i < 8; ++i) c[i] = b_load(p + 32 * i);
}

template <typename F>
STRATA_SIMD void load_codes(Strips p, Bytes (&c)[8]) {
  unpack_codes<F::kShape.codes>(p, c);
  if constexpr (F::kTraits.lookup) {
    Bytes table = b_table(kIq4Table);
    if constexpr (kUnsignedDots) table = b_flip_signs(table);
    STRATA_UNROLL
    for (int i = 0; i < 8; ++i) c[i] = b_lookup(table, c[i]);
  } else if constexpr (F::kHasSign && kUnsignedDots) {
    STRATA_UNROLL
    for (int i = 0; i < 8; ++i) c[i] = b_flip_signs(c[i]);
  }
}

// ---- integer sums ----

// Sum of kCount dots; those in 16 bits as a tree.
template <typename F, int kCount>
STRATA_SIMD Dots sum_dots(const Bytes* codes, const int8_t* x) {
  if constexpr (kCount == 1)
    return dot<F::kSigned>(codes[0], x);
  else if constexpr (kUnsignedDots)
    return add_dot<F::kSigned>(sum_dots<F, kCount - 1>(codes, x), codes[kCount - 1],
                               x + 4 * (kCount - 1));
  else
    return w_add(sum_dots<F, kCount / 2>(codes, x),
                 sum_dots<F, kCount / 2>(codes + kCount / 2, x + 2 * kCount));
}

// Sum of code * q over 4 * kVectors columns; in formats with integer scales times `factors` (two
// equal numbers per lane), which the others do not read.
template <typename F, int kVectors>
STRATA_SIMD Ints dot_scaled(const Bytes* codes, const int8_t* x, Words factors) {
  constexpr bool kScaled = F::kShape.scale_groups != 0;
  constexpr int kAddable = addable(F::kShape.codes, F::kSigned);
  constexpr int kTogether = kVectors < kAddable ? kVectors : kAddable;
  Ints sum = scale_dots<kScaled>(sum_dots<F, kTogether>(codes, x), factors);
  STRATA_UNROLL
  for (int i = kTogether; i < kVectors; i += kTogether)
    sum = i_add(sum, scale_dots<kScaled>(sum_dots<F, kTogether>(codes + i, x + 4 * i), factors));
  return sum;
}

// The integers of a block, as the groups of 32 columns take them. Bytes stay where they are.
template <bool kSixBits>
struct Integers {
  Strips bytes;
};
// Those of six bits are unpacked once for the block: each in both halves of its row's lane.
template <>
struct Integers<true> {
  Words of[16];
};

STRATA_SIMD void load_integers(Strips p, Integers<false>& integers) { integers.bytes = p; }
STRATA_SIMD void load_integers(Strips p, Integers<true>& integers) {
  const Bytes low[2] = {b_load(p), b_load(p + 32)};
  const Bytes high = b_load(p + 64);
  const Bytes fours[4] = {b_or(b_take<0, 15>(low[0]), move_bits<0, 4, 3>(high)),
                          b_or(b_take<0, 15>(low[1]), move_bits<2, 4, 3>(high)),
                          b_or(b_take<4, 15>(low[0]), move_bits<4, 4, 3>(high)),
                          b_or(b_take<4, 15>(low[1]), move_bits<6, 4, 3>(high))};
  STRATA_UNROLL
  for (int j = 0; j < 4; ++j) {
    integers.of[4 * j] = w_spread_byte<0>(fours[j]);
    integers.of[4 * j + 1] = w_spread_byte<1>(fours[j]);
    integers.of[4 * j + 2] = w_spread_byte<2>(fours[j]);
    integers.of[4 * j + 3] = w_spread_byte<3>(fours[j]);
  }
}

// The integer scales of 32 columns: one for all, or one for each half.
template <typename F>
struct GroupScales {
  Words first, second;
  Words pair;  // both, for products with ActivationBlock::sums
};

template <typename F>
STRATA_SIMD GroupScales<F> group_scales(const Integers<F::kSixBits>& integers, int b) {
  GroupScales<F> s;
  if constexpr (F::kSixBits && F::kPer16) {  // Q3_K
    s.first = w_add(integers.of[2 * b], w_set(-32));
    s.second = w_add(integers.of[2 * b + 1], w_set(-32));
  } else if constexpr (F::kSixBits) {  // Q4_K, Q5_K
    s.first = s.second = integers.of[b];
  } else if constexpr (F::kShape.codes == Codes::u2) {
    s.first = w_and(w_spread_u8(integers.bytes + 16 * b), w_set(15));
    s.second = w_and(w_spread_u8(integers.bytes + 16 * b + 8), w_set(15));
  } else if constexpr (F::kPer16) {  // Q6_K
    s.first = w_spread_s8(integers.bytes + 16 * b);
    s.second = w_spread_s8(integers.bytes + 16 * b + 8);
  } else {  // IQ4_XS
    s.first = s.second = w_spread_s8(integers.bytes + 8 * b);
  }
  s.pair = w_low_of_pairs(s.first, s.second);
  return s;
}

constexpr int log2_of(int v) { return v <= 1 ? 0 : 1 + log2_of(v / 2); }

// kBias * scales: |s| <= 128 with a bias of at most 32, |s| <= 32 with one of 128 (IQ4_XS), so the
// product fits 16 bits.
template <typename F>
STRATA_SIMD Words biased_scales(const GroupScales<F>& scales) {
  return w_shift_left<log2_of(F::kBias)>(scales.pair);
}

// Q2_K's offsets of 32 columns: one for each half, as GroupScales::pair.
STRATA_SIMD Words pair_offsets(const Integers<false>& integers, int b) {
  const Strips p = integers.bytes + 16 * b;
  return w_shift_right<4>(w_low_of_pairs(w_spread_u8(p), w_spread_u8(p + 8)));
}
// Q4_K's and Q5_K's of 32 columns.
STRATA_SIMD Floats group_offsets(const Integers<true>& integers, int b) {
  return f_from_int(i_high_of_pairs(integers.of[8 + b]));
}

// ---- storing ----

// The first `rows` (1..kLanes) lanes of y; zeros in the others.
STRATA_SIMD Floats load_rows(const float* y, int64_t rows) {
  if (rows >= kLanes) return f_load(y);
  float lanes_in[kLanes] = {};
  for (int64_t r = 0; r < rows; ++r) lanes_in[r] = y[r];
  return f_load(lanes_in);
}

// Adds the bias and stores the first `rows` (1..kLanes) lanes.
STRATA_SIMD void store_rows(Floats sum, const float* bias, int64_t rows, float* y) {
  if (rows >= kLanes) {
    f_store(y, bias == nullptr ? sum : f_add(sum, f_load(bias)));
    return;
  }
  float lanes_out[kLanes];
  f_store(lanes_out, sum);
  for (int64_t r = 0; r < rows; ++r) y[r] = bias == nullptr ? lanes_out[r] : lanes_out[r] + bias[r];
}

// One vector's results of a token.
STRATA_SIMD void store_results(const MatmulArgs& a, Floats sum, int64_t row, int64_t token) {
  float* out = a.y + token * a.y_stride + row;
  if (a.accumulate) sum = f_add(load_rows(out, a.rows - row), sum);
  store_rows(sum, a.bias == nullptr ? nullptr : a.bias + row, a.rows - row, out);
}

// Of float products, which never add to results: vectors of rows from `row` on, for tokens from
// `token` on.
template <int kVectors, int kTokens>
STRATA_SIMD void store_tile(const MatmulArgs& a, const Floats (&y)[kVectors][kTokens], int64_t row,
                            int64_t token) {
  STRATA_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const int64_t first = row + v * kLanes;
    const float* bias = a.bias == nullptr ? nullptr : a.bias + first;
    STRATA_UNROLL
    for (int t = 0; t < kTokens; ++t)
      store_rows(y[v][t], bias, a.rows - first, a.y + (token + t) * a.y_stride + first);
  }
}

// ---- weights ----

// The vector of strips whose first holds row `row`; its second may not exist.
STRATA_SIMD Strips strips_at(const MatmulArgs& a, int64_t row) {
  const std::byte* const first = a.weights + row / kStripRows * a.strip_bytes;
  return {first, row + kStripRows < a.rows ? a.strip_bytes : 0, first + a.strip_bytes};
}
