#pragma once

#include <cstdint>

namespace strata {

// Blocks of the quantised formats as they lie in GGUF files, byte for byte. Numbers of more than
// one byte are little-endian; `d`, `m`, `dmin` are f16 bit patterns (numeric/half.h). In files a
// block may start at any byte: copy it out with memcpy. Elements are numbered i = 0, 1, ... within
// a block, x[i] is the decoded value; every product and sum below is one f32 operation, in the
// written order. Source: the format definitions of ggml (block_* of its common header) and the
// decoders of the `gguf` Python package, which tools/oracle/formats.py runs for our goldens.

// NOLINTBEGIN(readability-identifier-naming): the names of the formats are ggml's

// Q4_0, 4.5 bits an element. x[i] = d * (q[i] - 8), q[i] 4 bits unsigned:
// qs[j] low nibble = q[j], high nibble = q[j + 16], j < 16.
struct BlockQ4_0 {
  static constexpr int kElements = 32;
  uint16_t d;
  uint8_t qs[16];
};

// Q4_1, 5 bits. x[i] = d * q[i] + m; qs as in Q4_0.
struct BlockQ4_1 {
  static constexpr int kElements = 32;
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};

// Q5_0, 5.5 bits. x[i] = d * (q[i] - 16), q[i] 5 bits unsigned: the low four lie in qs as in Q4_0,
// the fifth is bit i of qh read as one 32-bit number (bit i % 8 of qh[i / 8]).
struct BlockQ5_0 {
  static constexpr int kElements = 32;
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};

// Q5_1, 6 bits. x[i] = d * q[i] + m; q as in Q5_0.
struct BlockQ5_1 {
  static constexpr int kElements = 32;
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};

// Q8_0, 8.5 bits. x[i] = qs[i] * d.
struct BlockQ8_0 {
  static constexpr int kElements = 32;
  uint16_t d;
  int8_t qs[32];
};

// The K formats have 256 elements in 8 groups of 32 or 16 groups of 16, each group with a small
// integer scale (and offset) of its own.

// Q2_K, 2.625 bits. With g = i / 16:
//   x[i] = (d * (scales[g] & 15)) * q[i] - dmin * (scales[g] >> 4)
// q[i] 2 bits: with h = i / 128, j = (i % 128) / 32, l = i % 32: bits 2j, 2j+1 of qs[32 h + l].
struct BlockQ2_K {
  static constexpr int kElements = 256;
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d;
  uint16_t dmin;
};

// Q3_K, 3.4375 bits. With g = i / 16: x[i] = (d * (s[g] - 32)) * (q[i] - 4).
// q[i] 3 bits: the low two lie in qs as in Q2_K; the third is bit i / 32 of hmask[i % 32].
// s[g] 6 bits: low four = (g < 8 ? low : high) nibble of scales[g % 8];
//              high two = bits 2 (g / 4), 2 (g / 4) + 1 of scales[8 + g % 4].
struct BlockQ3_K {
  static constexpr int kElements = 256;
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};

// Q4_K, 4.5 bits. With g = i / 32: x[i] = (d * s[g]) * q[i] - dmin * o[g].
// q[i] 4 bits: with c = i / 64, l = i % 32: nibble of qs[32 c + l], low for i % 64 < 32, else high.
// s[g], o[g] 6 bits each:
//   g < 4:  s[g] = scales[g] & 63                                 o[g] = scales[g + 4] & 63
//   g >= 4: s[g] = (scales[g + 4] & 15) | (scales[g - 4] >> 6) << 4
//           o[g] = (scales[g + 4] >> 4) | (scales[g] >> 6) << 4
struct BlockQ4_K {
  static constexpr int kElements = 256;
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};

// Q5_K, 5.5 bits. As Q4_K with q[i] 5 bits: the low four lie in qs as in Q4_K, the fifth is bit
// i / 32 of qh[i % 32].
struct BlockQ5_K {
  static constexpr int kElements = 256;
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};

// Q6_K, 6.5625 bits. x[i] = (d * scales[i / 16]) * (q[i] - 32), scales signed.
// q[i] 6 bits, with h = i / 128, k = i % 128:
//   low four: nibble of ql[64 h + k % 64], low for k < 64, else high;
//   high two: bits 2 (k / 32), 2 (k / 32) + 1 of qh[32 h + k % 32].
struct BlockQ6_K {
  static constexpr int kElements = 256;
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};

// The 16 values of the non-linear 4-bit formats, denser near zero as weights are.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// IQ4_NL, 4.5 bits. x[i] = d * kIq4Values[q[i]]; q as in Q4_0.
struct BlockIq4Nl {
  static constexpr int kElements = 32;
  uint16_t d;
  uint8_t qs[16];
};

// IQ4_XS, 4.25 bits. With g = i / 32: x[i] = (d * (s[g] - 32)) * kIq4Values[q[i]].
// q[i]: with j = i % 32: nibble of qs[16 g + j % 16], low for j < 16, else high.
// s[g] 6 bits: low four = nibble of scales_l[g / 2], low for even g;
//              high two = bits 2 g, 2 g + 1 of scales_h.
struct BlockIq4Xs {
  static constexpr int kElements = 256;
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};

// Formats of our own, which compression writes: groups of kGroup (64 or 128) consecutive columns
// with f16 scales. Groups of 32 are Q8_0, Q4_0 and Q4_1, bit for bit the same rule. The encoder is
// numeric/group_encode.h.

// I8_G64, I8_G128: 8.25, 8.125 bits. x[i] = qs[i] * d.
template <int kGroup>
struct BlockInt8 {
  static constexpr int kElements = kGroup;
  uint16_t d;
  int8_t qs[kGroup];
};

// I4_G64, I4_G128: 4.25, 4.125 bits. x[i] = d * (q[i] - 8).
// q[i]: with j = i % 32: nibble of qs[16 (i / 32) + j % 16], low for j < 16, else high.
template <int kGroup>
struct BlockInt4 {
  static constexpr int kElements = kGroup;
  uint16_t d;
  uint8_t qs[kGroup / 2];
};

// I4Z_G64, I4Z_G128: 4.5, 4.25 bits. x[i] = d * q[i] + m; q as in BlockInt4.
template <int kGroup>
struct BlockInt4Offset {
  static constexpr int kElements = kGroup;
  uint16_t d;
  uint16_t m;
  uint8_t qs[kGroup / 2];
};
static_assert(sizeof(BlockInt8<64>) == 66 && sizeof(BlockInt8<128>) == 130 &&
              sizeof(BlockInt4<64>) == 34 && sizeof(BlockInt4<128>) == 66 &&
              sizeof(BlockInt4Offset<64>) == 36 && sizeof(BlockInt4Offset<128>) == 68);

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22 &&
              sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockIq4Nl) == 18);
static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144 &&
              sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210 && sizeof(BlockIq4Xs) == 136);

// Scale s[g] and offset o[g] of Q4_K and Q5_K, g < 8.
struct ScaleOffset {
  uint8_t scale;
  uint8_t offset;
};
inline ScaleOffset unpack_k4_scale(const uint8_t scales[12], int g) {
  if (g < 4)
    return {static_cast<uint8_t>(scales[g] & 63), static_cast<uint8_t>(scales[g + 4] & 63)};
  return {static_cast<uint8_t>((scales[g + 4] & 15) | ((scales[g - 4] >> 6) << 4)),
          static_cast<uint8_t>((scales[g + 4] >> 4) | ((scales[g] >> 6) << 4))};
}

// Scale s[g] - 32 of Q3_K, g < 16, and of IQ4_XS, g < 8.
inline int unpack_q3_k_scale(const uint8_t scales[12], int g) {
  const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
  const int high = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
  return (low | high << 4) - 32;
}
inline int unpack_iq4_xs_scale(const BlockIq4Xs& block, int g) {
  const int low = (block.scales_l[g / 2] >> (4 * (g % 2))) & 15;
  const int high = (block.scales_h >> (2 * g)) & 3;
  return (low | high << 4) - 32;
}

// NOLINTEND(readability-identifier-naming)

}  // namespace strata
