#include "numeric/packed.h"

#include <cstring>

#include "base/error.h"
#include "numeric/blocks.h"
#include "numeric/half.h"

// Codes are handled in words of four: codes[g] holds columns 4 g .. 4 g + 3 of a group of 32, one a
// byte, first in the lowest byte (little-endian, as all of x86).

namespace strata {
namespace {

constexpr uint32_t kLow4 = 0x0f0f0f0fu;
constexpr uint32_t kLow2 = 0x03030303u;
constexpr uint32_t kLow1 = 0x01010101u;

uint32_t load_word(const void* p) {
  uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

// The word with bit i of `bits` in the lowest place of byte i, i < 4.
uint32_t spread_bits(uint32_t bits) {
  return (bits & 1) | (bits & 2) << 7 | (bits & 4) << 14 | (bits & 8) << 21;
}

// ---- codes of file blocks: columns 32 b .. 32 b + 31 ----

// The 32-element formats: columns 0..15 in the low nibbles, 16..31 in the high ones.
void nibble_codes(const uint8_t qs[16], uint32_t codes[8]) {
  for (int g = 0; g < 4; ++g) {
    const uint32_t word = load_word(qs + 4 * g);
    codes[g] = word & kLow4;
    codes[g + 4] = word >> 4 & kLow4;
  }
}

void read_codes(const BlockQ4_0& block, int, uint32_t codes[8]) { nibble_codes(block.qs, codes); }
void read_codes(const BlockQ4_1& block, int, uint32_t codes[8]) { nibble_codes(block.qs, codes); }
void read_codes(const BlockIq4Nl& block, int, uint32_t codes[8]) { nibble_codes(block.qs, codes); }
void read_codes(const BlockIq4Xs& block, int b, uint32_t codes[8]) {
  nibble_codes(block.qs + 16 * b, codes);
}

template <typename Block>
void read_codes_5(const Block& block, uint32_t codes[8]) {
  nibble_codes(block.qs, codes);
  const uint32_t fifths = load_word(block.qh);
  for (int g = 0; g < 8; ++g) codes[g] |= spread_bits(fifths >> (4 * g)) << 4;
}
void read_codes(const BlockQ5_0& block, int, uint32_t codes[8]) { read_codes_5(block, codes); }
void read_codes(const BlockQ5_1& block, int, uint32_t codes[8]) { read_codes_5(block, codes); }

void read_codes(const BlockQ8_0& block, int, uint32_t codes[8]) {
  std::memcpy(codes, block.qs, 32);
}

template <int kGroup>
void read_codes(const BlockInt8<kGroup>& block, int b, uint32_t codes[8]) {
  std::memcpy(codes, block.qs + 32 * b, 32);
}
template <int kGroup>
void read_codes(const BlockInt4<kGroup>& block, int b, uint32_t codes[8]) {
  nibble_codes(block.qs + 16 * b, codes);
}
template <int kGroup>
void read_codes(const BlockInt4Offset<kGroup>& block, int b, uint32_t codes[8]) {
  nibble_codes(block.qs + 16 * b, codes);
}

void read_codes(const BlockQ2_K& block, int b, uint32_t codes[8]) {
  for (int g = 0; g < 8; ++g)
    codes[g] = load_word(block.qs + 32 * (b / 4) + 4 * g) >> (2 * (b % 4)) & kLow2;
}

void read_codes(const BlockQ3_K& block, int b, uint32_t codes[8]) {
  for (int g = 0; g < 8; ++g) {
    const uint32_t low = load_word(block.qs + 32 * (b / 4) + 4 * g) >> (2 * (b % 4)) & kLow2;
    codes[g] = low | (load_word(block.hmask + 4 * g) >> b & kLow1) << 2;
  }
}

void k_nibble_codes(const uint8_t qs[128], int b, uint32_t codes[8]) {
  for (int g = 0; g < 8; ++g)
    codes[g] = load_word(qs + 32 * (b / 2) + 4 * g) >> (4 * (b % 2)) & kLow4;
}

void read_codes(const BlockQ4_K& block, int b, uint32_t codes[8]) {
  k_nibble_codes(block.qs, b, codes);
}

void read_codes(const BlockQ5_K& block, int b, uint32_t codes[8]) {
  k_nibble_codes(block.qs, b, codes);
  for (int g = 0; g < 8; ++g) codes[g] |= (load_word(block.qh + 4 * g) >> b & kLow1) << 4;
}

void read_codes(const BlockQ6_K& block, int b, uint32_t codes[8]) {
  const int h = b / 4, quarter = b % 4;
  for (int g = 0; g < 8; ++g) {
    const uint32_t low = load_word(block.ql + 64 * h + 32 * (quarter % 2) + 4 * g);
    const uint32_t high = load_word(block.qh + 32 * h + 4 * g);
    codes[g] = (low >> (4 * (quarter / 2)) & kLow4) | (high >> (2 * quarter) & kLow2) << 4;
  }
}

// ---- planes of a strip: `planes` points at the word of one row in plane 0 ----

uint32_t plane_word(const std::byte* planes, int p) { return load_word(planes + 32 * p); }
void set_plane_word(std::byte* planes, int p, uint32_t word) {
  std::memcpy(planes + 32 * p, &word, 4);
}

void write_low4(const uint32_t codes[8], std::byte* planes) {
  for (int p = 0; p < 4; ++p)
    set_plane_word(planes, p, (codes[p] & kLow4) | (codes[p + 4] & kLow4) << 4);
}
// Bits `shift`, `shift` + 1 of four words, side by side.
uint32_t gather_pairs(const uint32_t words[4], int shift) {
  uint32_t pairs = 0;
  for (int j = 0; j < 4; ++j) pairs |= (words[j] >> shift & kLow2) << (2 * j);
  return pairs;
}
// Bits `shift`, `shift` + 1 of the codes to two planes.
void write_pairs(const uint32_t codes[8], int shift, std::byte* planes) {
  for (int p = 0; p < 2; ++p) set_plane_word(planes, p, gather_pairs(codes + 4 * p, shift));
}
void write_bit(const uint32_t codes[8], int shift, std::byte* plane) {
  uint32_t word = 0;
  for (int g = 0; g < 8; ++g) word |= (codes[g] >> shift & kLow1) << g;
  set_plane_word(plane, 0, word);
}

void write_planes(Codes kind, const uint32_t codes[8], std::byte* planes) {
  switch (kind) {
    case Codes::none:
      return;
    case Codes::u2:
      return write_pairs(codes, 0, planes);
    case Codes::u3:
      write_pairs(codes, 0, planes);
      return write_bit(codes, 2, planes + 64);
    case Codes::u4:
      return write_low4(codes, planes);
    case Codes::u5:
      write_low4(codes, planes);
      return write_bit(codes, 4, planes + 128);
    case Codes::u6:
      write_low4(codes, planes);
      return write_pairs(codes, 4, planes + 128);
    case Codes::s8:
      for (int g = 0; g < 8; ++g) set_plane_word(planes, g, codes[g]);
      return;
  }
}

uint32_t read_low4(const std::byte* planes, int g) {
  return plane_word(planes, g % 4) >> (4 * (g / 4)) & kLow4;
}
uint32_t read_pair(const std::byte* planes, int g) {
  return plane_word(planes, g / 4) >> (2 * (g % 4)) & kLow2;
}
uint32_t read_bit(const std::byte* plane, int g) { return plane_word(plane, 0) >> g & kLow1; }

uint32_t read_plane_codes(Codes kind, const std::byte* planes, int g) {
  switch (kind) {
    case Codes::none:
      break;
    case Codes::u2:
      return read_pair(planes, g);
    case Codes::u3:
      return read_pair(planes, g) | read_bit(planes + 64, g) << 2;
    case Codes::u4:
      return read_low4(planes, g);
    case Codes::u5:
      return read_low4(planes, g) | read_bit(planes + 128, g) << 4;
    case Codes::u6:
      return read_low4(planes, g) | read_pair(planes + 128, g) << 4;
    case Codes::s8:
      return plane_word(planes, g);
  }
  return 0;
}

// ---- headers: what one row puts into a block's scales ----

struct Header {
  uint16_t d = 0;
  uint16_t m = 0;
  uint8_t integers[16] = {};  // scales, then offsets
};

template <typename Block>
Header plain_header(const Block& block) {
  Header header;
  header.d = block.d;
  return header;
}
Header read_header(const BlockQ4_0& block) { return plain_header(block); }
Header read_header(const BlockQ5_0& block) { return plain_header(block); }
Header read_header(const BlockQ8_0& block) { return plain_header(block); }
Header read_header(const BlockIq4Nl& block) { return plain_header(block); }
template <int kGroup>
Header read_header(const BlockInt8<kGroup>& block) {
  return plain_header(block);
}
template <int kGroup>
Header read_header(const BlockInt4<kGroup>& block) {
  return plain_header(block);
}
template <typename Block>
Header offset_header(const Block& block) {
  Header header = plain_header(block);
  header.m = block.m;
  return header;
}
Header read_header(const BlockQ4_1& block) { return offset_header(block); }
Header read_header(const BlockQ5_1& block) { return offset_header(block); }
template <int kGroup>
Header read_header(const BlockInt4Offset<kGroup>& block) {
  return offset_header(block);
}
template <typename Block>
Header k4_header(const Block& block) {
  Header header = plain_header(block);
  header.m = block.dmin;
  for (int g = 0; g < 8; ++g) {
    const ScaleOffset group = unpack_k4_scale(block.scales, g);
    header.integers[g] = group.scale;
    header.integers[8 + g] = group.offset;
  }
  return header;
}
Header read_header(const BlockQ4_K& block) { return k4_header(block); }
Header read_header(const BlockQ5_K& block) { return k4_header(block); }
Header read_header(const BlockQ2_K& block) {
  Header header = plain_header(block);
  header.m = block.dmin;
  std::memcpy(header.integers, block.scales, 16);
  return header;
}
Header read_header(const BlockQ3_K& block) {
  Header header = plain_header(block);
  for (int g = 0; g < 16; ++g)
    header.integers[g] = static_cast<uint8_t>(unpack_q3_k_scale(block.scales, g) + 32);
  return header;
}
Header read_header(const BlockQ6_K& block) {
  Header header = plain_header(block);
  std::memcpy(header.integers, block.scales, 16);
  return header;
}
Header read_header(const BlockIq4Xs& block) {
  Header header = plain_header(block);
  for (int g = 0; g < 8; ++g)
    header.integers[g] = static_cast<uint8_t>(unpack_iq4_xs_scale(block, g));
  return header;
}

void write_six_bits(const uint8_t integers[16], std::byte* planes) {
  uint32_t words[4];
  std::memcpy(words, integers, 16);
  for (int p = 0; p < 2; ++p)
    set_plane_word(planes, p, (words[p] & kLow4) | (words[p + 2] & kLow4) << 4);
  set_plane_word(planes, 2, gather_pairs(words, 4));
}
void read_six_bits(const std::byte* planes, uint8_t integers[16]) {
  for (int j = 0; j < 4; ++j) {
    const uint32_t low = plane_word(planes, j % 2) >> (4 * (j / 2)) & kLow4;
    const uint32_t word = low | (plane_word(planes, 2) >> (2 * j) & kLow2) << 4;
    std::memcpy(integers + 4 * j, &word, 4);
  }
}

void write_header(const PackedShape& shape, const Header& header, int lane, std::byte* block) {
  std::memcpy(block + 2 * lane, &header.d, 2);
  block += 16;
  if (shape.has_m) {
    std::memcpy(block + 2 * lane, &header.m, 2);
    block += 16;
  }
  if (shape.integer_bits == 6) return write_six_bits(header.integers, block + 4 * lane);
  for (int g = 0; g < shape.scale_groups; ++g) block[8 * g + lane] = std::byte{header.integers[g]};
}

Header read_packed_header(const PackedShape& shape, const std::byte* block, int lane) {
  Header header;
  std::memcpy(&header.d, block + 2 * lane, 2);
  block += 16;
  if (shape.has_m) {
    std::memcpy(&header.m, block + 2 * lane, 2);
    block += 16;
  }
  if (shape.integer_bits == 6) {
    read_six_bits(block + 4 * lane, header.integers);
  } else {
    for (int g = 0; g < shape.scale_groups; ++g)
      header.integers[g] = std::to_integer<uint8_t>(block[8 * g + lane]);
  }
  return header;
}

// ---- whole rows ----

int64_t packed_block_bytes(TensorType type) {
  const PackedShape shape = packed_shape(type);
  return packed_header_bytes(shape) +
         tensor_type_info(type).block_elements / 32 * code_bytes(shape.codes);
}

template <TensorType type, typename Block>
void pack_row(const std::byte* row, int64_t in, int lane, std::byte* strip) {
  constexpr PackedShape shape = packed_shape(type);
  constexpr int kSubBlocks = Block::kElements / 32;
  constexpr int kHeader = packed_header_bytes(shape);
  constexpr int kCodes = code_bytes(shape.codes);
  for (int64_t k = 0; k < in; k += Block::kElements) {
    Block block;
    if (row != nullptr) {
      std::memcpy(&block, row, sizeof(Block));
      row += sizeof(Block);
      write_header(shape, read_header(block), lane, strip);
    } else {
      // Scales of zero make the whole row zero; the codes only have to be defined.
      std::memset(&block, 0, sizeof(Block));
      write_header(shape, Header(), lane, strip);
    }
    for (int b = 0; b < kSubBlocks; ++b) {
      uint32_t codes[8];
      read_codes(block, b, codes);
      write_planes(shape.codes, codes, strip + kHeader + kCodes * b + 4 * lane);
    }
    strip += kHeader + kCodes * kSubBlocks;
  }
}

template <typename Element>
void pack_elements(const std::byte* const rows[kStripRows], int64_t in, int64_t stride,
                   std::byte* strip) {
  constexpr int64_t kSize = sizeof(Element);
  for (int64_t k = 0; k < in; ++k) {
    for (int r = 0; r < kStripRows; ++r) {
      Element element{};
      if (rows[r] != nullptr) std::memcpy(&element, rows[r] + k * stride, kSize);
      std::memcpy(strip + (k * kStripRows + r) * kSize, &element, kSize);
    }
  }
}

template <TensorType type, typename Block>
void pack_rows(const std::byte* const rows[kStripRows], int64_t in, std::byte* strip) {
  for (int r = 0; r < kStripRows; ++r) pack_row<type, Block>(rows[r], in, r, strip);
}

float to_float(int value) { return static_cast<float>(value); }

// The value of column i of a block from its code, in the arithmetic of numeric/blocks.h.
float decode_code(TensorType type, const Header& h, float d, float m, int i, int code) {
  const auto signed_scale = [&](int g) { return static_cast<int8_t>(h.integers[g]); };
  switch (type) {
    case TensorType::q4_0:
    case TensorType::i4_g64:
    case TensorType::i4_g128:
      return d * to_float(code - 8);
    case TensorType::q5_0:
      return d * to_float(code - 16);
    case TensorType::q4_1:
    case TensorType::q5_1:
    case TensorType::i4z_g64:
    case TensorType::i4z_g128:
      return d * to_float(code) + m;
    case TensorType::q8_0:
    case TensorType::i8_g64:
    case TensorType::i8_g128:
      return to_float(static_cast<int8_t>(code)) * d;
    case TensorType::iq4_nl:
      return d * to_float(kIq4Values[code]);
    case TensorType::iq4_xs:
      return (d * to_float(signed_scale(i / 32))) * to_float(kIq4Values[code]);
    case TensorType::q2_k:
      return (d * to_float(h.integers[i / 16] & 15)) * to_float(code) -
             m * to_float(h.integers[i / 16] >> 4);
    case TensorType::q3_k:
      return (d * to_float(h.integers[i / 16] - 32)) * to_float(code - 4);
    case TensorType::q6_k:
      return (d * to_float(signed_scale(i / 16))) * to_float(code - 32);
    case TensorType::q4_k:
    case TensorType::q5_k:
      return (d * to_float(h.integers[i / 32])) * to_float(code) -
             m * to_float(h.integers[8 + i / 32]);
    case TensorType::f32:
    case TensorType::f16:
    case TensorType::bf16:
      break;
  }
  return 0;
}

}  // namespace

int64_t packed_strip_bytes(TensorType type, int64_t in) {
  const TensorTypeInfo& info = tensor_type_info(type);
  STRATA_ASSERT(in >= 0 && in % info.block_elements == 0);
  if (!is_quantised(type)) return kStripRows * in * info.block_bytes;
  return in / info.block_elements * packed_block_bytes(type);
}

void pack_strip(TensorType type, const std::byte* const rows[kStripRows], int64_t in,
                int64_t element_stride, std::byte* strip) {
  switch (type) {
    case TensorType::f32:
      return pack_elements<uint32_t>(rows, in, element_stride, strip);
    case TensorType::f16:
    case TensorType::bf16:
      return pack_elements<uint16_t>(rows, in, element_stride, strip);
    case TensorType::q4_0:
      return pack_rows<TensorType::q4_0, BlockQ4_0>(rows, in, strip);
    case TensorType::q4_1:
      return pack_rows<TensorType::q4_1, BlockQ4_1>(rows, in, strip);
    case TensorType::q5_0:
      return pack_rows<TensorType::q5_0, BlockQ5_0>(rows, in, strip);
    case TensorType::q5_1:
      return pack_rows<TensorType::q5_1, BlockQ5_1>(rows, in, strip);
    case TensorType::q8_0:
      return pack_rows<TensorType::q8_0, BlockQ8_0>(rows, in, strip);
    case TensorType::q2_k:
      return pack_rows<TensorType::q2_k, BlockQ2_K>(rows, in, strip);
    case TensorType::q3_k:
      return pack_rows<TensorType::q3_k, BlockQ3_K>(rows, in, strip);
    case TensorType::q4_k:
      return pack_rows<TensorType::q4_k, BlockQ4_K>(rows, in, strip);
    case TensorType::q5_k:
      return pack_rows<TensorType::q5_k, BlockQ5_K>(rows, in, strip);
    case TensorType::q6_k:
      return pack_rows<TensorType::q6_k, BlockQ6_K>(rows, in, strip);
    case TensorType::iq4_nl:
      return pack_rows<TensorType::iq4_nl, BlockIq4Nl>(rows, in, strip);
    case TensorType::iq4_xs:
      return pack_rows<TensorType::iq4_xs, BlockIq4Xs>(rows, in, strip);
    case TensorType::i8_g64:
      return pack_rows<TensorType::i8_g64, BlockInt8<64>>(rows, in, strip);
    case TensorType::i8_g128:
      return pack_rows<TensorType::i8_g128, BlockInt8<128>>(rows, in, strip);
    case TensorType::i4_g64:
      return pack_rows<TensorType::i4_g64, BlockInt4<64>>(rows, in, strip);
    case TensorType::i4_g128:
      return pack_rows<TensorType::i4_g128, BlockInt4<128>>(rows, in, strip);
    case TensorType::i4z_g64:
      return pack_rows<TensorType::i4z_g64, BlockInt4Offset<64>>(rows, in, strip);
    case TensorType::i4z_g128:
      return pack_rows<TensorType::i4z_g128, BlockInt4Offset<128>>(rows, in, strip);
  }
}

void unpack_row(TensorType type, const std::byte* strip, int lane, int64_t in, float* out) {
  if (!is_quantised(type)) {
    const int64_t size = tensor_type_info(type).block_bytes;
    for (int64_t k = 0; k < in; ++k)
      decode_elements(type, strip + (k * kStripRows + lane) * size, out + k, 1);
    return;
  }
  const PackedShape shape = packed_shape(type);
  const int elements = tensor_type_info(type).block_elements;
  const int header_bytes = packed_header_bytes(shape), codes_bytes = code_bytes(shape.codes);
  for (int64_t k = 0; k < in; k += elements, strip += packed_block_bytes(type)) {
    const Header header = read_packed_header(shape, strip, lane);
    const float d = decode_f16(header.d), m = decode_f16(header.m);
    for (int i = 0; i < elements; ++i) {
      const std::byte* planes = strip + header_bytes + codes_bytes * (i / 32) + 4 * lane;
      const uint32_t word = read_plane_codes(shape.codes, planes, i % 32 / 4);
      out[k + i] =
          decode_code(type, header, d, m, i, static_cast<int>(word >> (8 * (i % 4)) & 255));
    }
  }
}

}  // namespace strata
