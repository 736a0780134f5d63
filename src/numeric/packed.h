#pragma once

#include <cstddef>
#include <cstdint>

#include "numeric/tensor_type.h"

namespace strata {

// Weights as the matrix product reads them: a matrix [out, in] is a sequence of strips of 8 rows
// (the last filled up with zero rows), a strip is one row per 32-bit lane of a 256-bit vector.
//
// Float types: element (row r, column k) of a strip is number 8 k + r.
//
// Quantised types: a strip is in / block_elements blocks, one after the other, each made of
//   d        8 f16             the blocks' scales of rows 0..7
//   m        8 f16             Q4_1, Q5_1, I4Z_*: offset m; Q2_K, Q4_K, Q5_K: dmin
//   scales   n x 8 bytes       n groups of (row 0..7), integers of bytes:
//                              IQ4_XS: s[g] - 32, 8 groups    Q6_K: s[g], 16 groups
//                              Q2_K: the file's byte, s[g] | o[g] << 4, 16 groups
//   scales   96 bytes          16 integers of six bits, as planes (below):
//                              Q3_K: s[0..15]                 Q4_K, Q5_K: s[0..7], o[0..7]
//   codes    of 32 columns each, block_elements / 32 times
// where the names are those of numeric/blocks.h and absent fields take no room. The codes of 8 rows
// x 32 columns are planes of 32 bytes; byte 4 r + i belongs to row r and columns 4 g + i, g < 8:
//   low four bits (u4, u5, u6)  4 planes: plane p holds g = p in the low nibble, p + 4 in the high
//   fifth bit (u5)              1 plane: bit g
//   bits 4, 5 (u6)              2 planes: plane p holds g = 4 p + j in bits 2 j, 2 j + 1
//   low two bits (u2, u3)       2 planes, likewise
//   third bit (u3)              1 plane: bit g
//   s8                          8 planes: plane g
// Codes are the q[i] of blocks.h (for Q8_0 and I8_* two's complement). Everything is exact:
// unpack_row gives the bits of decode_elements. Sizes equal the file's; IQ4_XS takes 1.015 of it.
//
// Six-bit integers n[0..15] of 8 rows are 3 planes; byte 4 r + i belongs to row r and n[4 j + i],
// j < 4:
//   low four bits               2 planes: plane p holds j = p in the low nibble, p + 2 in the high
//   bits 4, 5                   1 plane: j in bits 2 j, 2 j + 1
inline constexpr int kStripRows = 8;

enum class Codes : uint8_t { none, u2, u3, u4, u5, u6, s8 };

struct PackedShape {
  Codes codes = Codes::none;
  bool has_m = false;
  int scale_groups = 0;   // per block
  int offset_groups = 0;  // per block
  int integer_bits = 8;   // of a scale or an offset: 8, or 6 where they are 16 in all
};

constexpr PackedShape packed_shape(TensorType type) {
  switch (type) {
    case TensorType::f32:
    case TensorType::f16:
    case TensorType::bf16:
      break;
    case TensorType::q4_0:
    case TensorType::iq4_nl:
      return {Codes::u4, false, 0, 0};
    case TensorType::q4_1:
      return {Codes::u4, true, 0, 0};
    case TensorType::q5_0:
      return {Codes::u5, false, 0, 0};
    case TensorType::q5_1:
      return {Codes::u5, true, 0, 0};
    case TensorType::q8_0:
      return {Codes::s8, false, 0, 0};
    case TensorType::q2_k:
      return {Codes::u2, true, 16, 0};
    case TensorType::q3_k:
      return {Codes::u3, false, 16, 0, 6};
    case TensorType::q4_k:
      return {Codes::u4, true, 8, 8, 6};
    case TensorType::q5_k:
      return {Codes::u5, true, 8, 8, 6};
    case TensorType::q6_k:
      return {Codes::u6, false, 16, 0};
    case TensorType::iq4_xs:
      return {Codes::u4, false, 8, 0};
    case TensorType::i8_g64:
    case TensorType::i8_g128:
      return {Codes::s8, false, 0, 0};
    case TensorType::i4_g64:
    case TensorType::i4_g128:
      return {Codes::u4, false, 0, 0};
    case TensorType::i4z_g64:
    case TensorType::i4z_g128:
      return {Codes::u4, true, 0, 0};
  }
  return {};
}

// Bytes of the codes of 8 rows x 32 columns.
constexpr int code_bytes(Codes codes) {
  switch (codes) {
    case Codes::none:
      return 0;
    case Codes::u2:
      return 64;
    case Codes::u3:
      return 96;
    case Codes::u4:
      return 128;
    case Codes::u5:
      return 160;
    case Codes::u6:
      return 192;
    case Codes::s8:
      return 256;
  }
  return 0;
}

// Bytes before the codes of a block.
constexpr int packed_header_bytes(const PackedShape& shape) {
  return 16 + (shape.has_m ? 16 : 0) +
         shape.integer_bits * (shape.scale_groups + shape.offset_groups);
}

constexpr bool is_quantised(TensorType type) { return packed_shape(type).codes != Codes::none; }

// Bytes of a strip of matrices with `in` columns (a multiple of the type's block_elements).
int64_t packed_strip_bytes(TensorType type, int64_t in);

// Packs 8 rows of `in` elements; rows[r] may have any alignment, nullptr is a row of zeros.
// element_stride: bytes from element to element, read for the float types only.
void pack_strip(TensorType type, const std::byte* const rows[kStripRows], int64_t in,
                int64_t element_stride, std::byte* strip);

// Decodes row `lane` of a strip to out[0..in), to the bits of decode_elements.
void unpack_row(TensorType type, const std::byte* strip, int lane, int64_t in, float* out);

}  // namespace strata
