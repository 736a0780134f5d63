// Included by isa_*_matmul.cpp inside strata's anonymous namespace, after one
// simd/vec8_*.h.
//
// A strip's 8 rows are the 8 lanes, so a result is made by one lane, columns in
// order. For one row and token, with the integer sums exact (vpmaddubsw adds
// two products in 16 bits and saturates; how many of its results may be added
// there follows from the codes' range, see CodeSum):
//
//   formats of 32:  for each block:  y = fma(d, float(i) * scale, y);  y =
//   fma(m, scaled_sum, y)
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
// each 4 KB page.
constexpr int kPrefetchBytes = 1024;

STRATA_SIMD void prefetch_ahead(const std::byte* w) {
  for (int line = 0; line < 3; ++line) prefetch(w + kPrefetchBytes + 64 * line);
}

// What the codes of a type mean to the sums.
struct FormatTraits {
  int bias;     // the value of a code is code - bias
  bool lookup;  // the value is kIq4Table[code]
};
constexpr FormatTraits format_traits(TensorType type) {
  switch (type) {
    case TensorType::q4_0:
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

template <TensorType kType>
struct Format {
  static constexpr PackedShape kShape = packed_shape(kType);
  static constexpr FormatTraits kTraits = format_traits(kType);
  static constexpr bool kSigned = kTraits.lookup || kShape.codes == Codes::s8;
  static constexpr int kHeaderBytes = packed_header_bytes(kShape);
  static constexpr int kCodeBytes = code_bytes(kShape.codes);
  static constexpr int kMBytes = 16;                          // where m lies
  static constexpr int kScaleBytes = kShape.has_m ? 32 : 16;  // where the integer scales lie
  static constexpr int kOffsetBytes = kScaleBytes + 8 * kShape.scale_groups;
  static constexpr bool kPer16 = kShape.scale_groups == 16;
};

// ---- codes: 8 vectors, vector g holds columns 4 g .. 4 g + 3 of each row ----

template <int kGroup>
STRATA_SIMD B32 take_pair(B32 plane) {  // two bits at 2 * kGroup, to the bottom
  return b32_take<2 * kGroup, 3>(plane);
}
template <int kPlace, int kTo, int kMask>
STRATA_SIMD B32 move_bits(B32 plane) {  // bits at kPlace to kTo
  return b32_take<kPlace - kTo, (kMask << kTo)>(plane);
}

STRATA_SIMD void unpack_low4(const std::byte* p, B32 (&c)[8]) {
  STRATA_UNROLL
  for (int i = 0; i < 4; ++i) {
    const B32 plane = b32_load(p + 32 * i);
    c[i] = b32_take<0, 15>(plane);
    c[i + 4] = b32_take<4, 15>(plane);
  }
}

template <Codes kCodes>
STRATA_SIMD void unpack_codes(const std::byte* p, B32 (&c)[8]) {
  if constexpr (kCodes == Codes::u2 || kCodes == Codes::u3) {
    STRATA_UNROLL
    for (int i = 0; i < 2; ++i) {
      const B32 plane = b32_load(p + 32 * i);
      c[4 * i] = take_pair<0>(plane);
      c[4 * i + 1] = take_pair<1>(plane);
      c[4 * i + 2] = take_pair<2>(plane);
      c[4 * i + 3] = take_pair<3>(plane);
    }
  }
  if constexpr (kCodes == Codes::u3) {
    const B32 thirds = b32_load(p + 64);
    c[0] = b32_or(c[0], move_bits<0, 2, 1>(thirds));
    c[1] = b32_or(c[1], move_bits<1, 2, 1>(thirds));
    c[2] = b32_or(c[2], move_bits<2, 2, 1>(thirds));
    c[3] = b32_or(c[3], move_bits<3, 2, 1>(thirds));
    c[4] = b32_or(c[4], move_bits<4, 2, 1>(thirds));
    c[5] = b32_or(c[5], move_bits<5, 2, 1>(thirds));
    c[6] = b32_or(c[6], move_bits<6, 2, 1>(thirds));
    c[7] = b32_or(c[7], move_bits<7, 2, 1>(thirds));
  }
  if constexpr (kCodes == Codes::u4 || kCodes == Codes::u5 || kCodes == Codes::u6)
    unpack_low4(p, c);
  if constexpr (kCodes == Codes::u5) {
    const B32 fifths = b32_load(p + 128);
    c[0] = b32_or(c[0], move_bits<0, 4, 1>(fifths));
    c[1] = b32_or(c[1], move_bits<1, 4, 1>(fifths));
    c[2] = b32_or(c[2], move_bits<2, 4, 1>(fifths));
    c[3] = b32_or(c[3], move_bits<3, 4, 1>(fifths));
    c[4] = b32_or(c[4], move_bits<4, 4, 1>(fifths));
    c[5] = b32_or(c[5], move_bits<5, 4, 1>(fifths));
    c[6] = b32_or(c[6], move_bits<6, 4, 1>(fifths));
    c[7] = b32_or(c[7], move_bits<7, 4, 1>(fifths));
  }
  if constexpr (kCodes == Codes::u6) {
    STRATA_UNROLL
    for (int i = 0; i < 2; ++i) {
      const B32 high = b32_load(p + 128 + 32 * i);
      c[4 * i] = b32_or(c[4 * i], move_bits<0, 4, 3>(high));
      c[4 * i + 1] = b32_or(c[4 * i + 1], move_bits<2, 4, 3>(high));
      c[4 * i + 2] = b32_or(c[4 * i + 2], move_bits<4, 4, 3>(high));
      c[4 * i + 3] = b32_or(c[4 * i + 3], move_bits<6, 4, 3>(high));
    }
  }
  if constexpr (kCodes == Codes::s8) STRATA_UNROLL
  for (int i = 0; i < 8; ++i) c[i] = b32_load(p + 32 * i);
}

template <typename F>
STRATA_SIMD void load_codes(const std::byte* p, B32 (&c)[8]) {
  unpack_codes<F::kShape.codes>(p, c);
  if constexpr (F::kTraits.lookup) {
    const B32 table = b32_table(kIq4Table);
    STRATA_UNROLL
    for (int i = 0; i < 8; ++i) c[i] = b32_lookup(table, c[i]);
  }
}

// ---- integer sums ----

// How many results of w16_dot may be added in 16 bits: each is two products
// with |q| <= 127.
constexpr int addable(Codes codes, bool is_signed) {
  if (is_signed) return 1;  // 128 * 127 * 2 = 32512
  switch (codes) {
    case Codes::u6:
      return 2;  // 63 * 127 * 2 = 16002
    case Codes::u5:
      return 4;  // 31 * 127 * 2 = 7874
    default:
      return 8;  // 15 * 127 * 2 = 3810
  }
}

template <typename F>
STRATA_SIMD W16 dot_four(B32 codes, const int8_t* x) {
  if constexpr (F::kSigned)
    return w16_dot_s8(codes, x);
  else
    return w16_dot_u8(codes, x);
}

// Sum of kCount dots, added in 16 bits as a tree.
template <typename F, int kCount>
STRATA_SIMD W16 dot_words(const B32* codes, const int8_t* x) {
  if constexpr (kCount == 1)
    return dot_four<F>(codes[0], x);
  else
    return w16_add(dot_words<F, kCount / 2>(codes, x),
                   dot_words<F, kCount / 2>(codes + kCount / 2, x + 2 * kCount));
}

// Sum of code * q over 4 * kVectors columns, times `factors` (two equal numbers
// per lane).
template <typename F, int kVectors>
STRATA_SIMD I8 dot_scaled(const B32* codes, const int8_t* x, W16 factors) {
  constexpr int kAddable = addable(F::kShape.codes, F::kSigned);
  constexpr int kTogether = kVectors < kAddable ? kVectors : kAddable;
  I8 sum = i8_pair_dot(dot_words<F, kTogether>(codes, x), factors);
  STRATA_UNROLL
  for (int i = kTogether; i < kVectors; i += kTogether)
    sum = i8_add(sum, i8_pair_dot(dot_words<F, kTogether>(codes + i, x + 4 * i), factors));
  return sum;
}

// The integer scales of 32 columns: one for all, or one for each half.
template <typename F>
struct GroupScales {
  W16 first, second;
  W16 pair;  // both, for products with ActivationBlock::sums
};

template <typename F>
STRATA_SIMD GroupScales<F> load_scales(const std::byte* block, int b) {
  const std::byte* p = block + F::kScaleBytes;
  GroupScales<F> s;
  if constexpr (F::kPer16) {
    if constexpr (F::kShape.codes == Codes::u2) {
      s.first = w16_and(w16_spread_u8(p + 16 * b), w16_set(15));
      s.second = w16_and(w16_spread_u8(p + 16 * b + 8), w16_set(15));
    } else {
      s.first = w16_spread_s8(p + 16 * b);
      s.second = w16_spread_s8(p + 16 * b + 8);
    }
  } else {
    s.first = F::kTraits.lookup ? w16_spread_s8(p + 8 * b) : w16_spread_u8(p + 8 * b);
    s.second = s.first;
  }
  s.pair = w16_low_of_pairs(s.first, s.second);
  return s;
}

constexpr int log2_of(int v) { return v <= 1 ? 0 : 1 + log2_of(v / 2); }

// bias * scales: |s| <= 128, bias <= 32, so the product fits 16 bits.
template <typename F>
STRATA_SIMD W16 biased_scales(const GroupScales<F>& scales) {
  return w16_shift_left<log2_of(F::kTraits.bias)>(scales.pair);
}

// Q2_K's offsets of 32 columns: one for each half, as GroupScales::pair.
template <typename F>
STRATA_SIMD W16 load_pair_offsets(const std::byte* block, int b) {
  const std::byte* p = block + F::kScaleBytes + 16 * b;
  return w16_shift_right<4>(w16_low_of_pairs(w16_spread_u8(p), w16_spread_u8(p + 8)));
}

// ---- storing ----

// The first `rows` (1..8) lanes of y; zeros in the others.
STRATA_SIMD F8 load_rows(const float* y, int64_t rows) {
  if (rows >= 8) return f8_load(y);
  float lanes_in[8] = {};
  for (int64_t r = 0; r < rows; ++r) lanes_in[r] = y[r];
  return f8_load(lanes_in);
}

// Adds the bias and stores the first `rows` (1..8) lanes.
STRATA_SIMD void store_rows(F8 sum, const float* bias, int64_t rows, float* y) {
  if (rows >= 8) {
    f8_store(y, bias == nullptr ? sum : f8_add(sum, f8_load(bias)));
    return;
  }
  float lanes_out[8];
  f8_store(lanes_out, sum);
  for (int64_t r = 0; r < rows; ++r) y[r] = bias == nullptr ? lanes_out[r] : lanes_out[r] + bias[r];
}

// One strip's results of a token.
STRATA_SIMD void store_results(const MatmulArgs& a, F8 sum, int64_t row, int64_t token) {
  float* out = a.y + token * a.y_stride + row;
  if (a.accumulate) sum = f8_add(load_rows(out, a.rows - row), sum);
  store_rows(sum, a.bias == nullptr ? nullptr : a.bias + row, a.rows - row, out);
}
