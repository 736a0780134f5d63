#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "numeric/blocks.h"
#include "numeric/half.h"
#include "numeric/tensor_type.h"

// The scalar decoders, one per format, in the arithmetic that numeric/blocks.h states. They are the
// definition that faster kernels are compared with, so they read plainly rather than run fast.

namespace strata {
namespace {

int low_nibble(uint8_t byte) { return byte & 15; }
int high_nibble(uint8_t byte) { return byte >> 4; }
// q[i] of the 32-element formats.
int nibble(const uint8_t qs[16], int i) {
  return i < 16 ? low_nibble(qs[i]) : high_nibble(qs[i - 16]);
}
int fifth_bit(const uint8_t qh[4], int i) { return ((qh[i / 8] >> (i % 8)) & 1) << 4; }
// The low two bits of q[i] in Q2_K and Q3_K.
int two_bits(const uint8_t qs[64], int i) {
  return (qs[32 * (i / 128) + i % 32] >> (2 * ((i % 128) / 32))) & 3;
}
// The low four bits of q[i] in Q4_K and Q5_K.
int k_nibble(const uint8_t qs[128], int i) {
  const uint8_t byte = qs[32 * (i / 64) + i % 32];
  return i % 64 < 32 ? low_nibble(byte) : high_nibble(byte);
}
float to_float(int value) { return static_cast<float>(value); }

void decode_block(const BlockQ4_0& b, float* out) {
  const float d = decode_f16(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * to_float(nibble(b.qs, i) - 8);
}

void decode_block(const BlockQ4_1& b, float* out) {
  const float d = decode_f16(b.d), m = decode_f16(b.m);
  for (int i = 0; i < 32; ++i) out[i] = d * to_float(nibble(b.qs, i)) + m;
}

void decode_block(const BlockQ5_0& b, float* out) {
  const float d = decode_f16(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * to_float((nibble(b.qs, i) | fifth_bit(b.qh, i)) - 16);
}

void decode_block(const BlockQ5_1& b, float* out) {
  const float d = decode_f16(b.d), m = decode_f16(b.m);
  for (int i = 0; i < 32; ++i) out[i] = d * to_float(nibble(b.qs, i) | fifth_bit(b.qh, i)) + m;
}

void decode_block(const BlockQ8_0& b, float* out) {
  const float d = decode_f16(b.d);
  for (int i = 0; i < 32; ++i) out[i] = to_float(b.qs[i]) * d;
}

void decode_block(const BlockQ2_K& b, float* out) {
  const float d = decode_f16(b.d), dmin = decode_f16(b.dmin);
  for (int i = 0; i < 256; ++i) {
    const uint8_t group = b.scales[i / 16];
    const float scale = d * to_float(low_nibble(group));
    const float offset = dmin * to_float(high_nibble(group));
    out[i] = scale * to_float(two_bits(b.qs, i)) - offset;
  }
}

void decode_block(const BlockQ3_K& b, float* out) {
  const float d = decode_f16(b.d);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * to_float(unpack_q3_k_scale(b.scales, i / 16));
    const int third_bit = ((b.hmask[i % 32] >> (i / 32)) & 1) << 2;
    out[i] = scale * to_float((two_bits(b.qs, i) | third_bit) - 4);
  }
}

void decode_block(const BlockQ4_K& b, float* out) {
  const float d = decode_f16(b.d), dmin = decode_f16(b.dmin);
  for (int i = 0; i < 256; ++i) {
    const ScaleOffset group = unpack_k4_scale(b.scales, i / 32);
    out[i] =
        (d * to_float(group.scale)) * to_float(k_nibble(b.qs, i)) - dmin * to_float(group.offset);
  }
}

void decode_block(const BlockQ5_K& b, float* out) {
  const float d = decode_f16(b.d), dmin = decode_f16(b.dmin);
  for (int i = 0; i < 256; ++i) {
    const ScaleOffset group = unpack_k4_scale(b.scales, i / 32);
    const int fifth = ((b.qh[i % 32] >> (i / 32)) & 1) << 4;
    out[i] = (d * to_float(group.scale)) * to_float(k_nibble(b.qs, i) | fifth) -
             dmin * to_float(group.offset);
  }
}

void decode_block(const BlockQ6_K& b, float* out) {
  const float d = decode_f16(b.d);
  for (int i = 0; i < 256; ++i) {
    const int h = i / 128, k = i % 128;
    const uint8_t byte = b.ql[64 * h + k % 64];
    const int low = k < 64 ? low_nibble(byte) : high_nibble(byte);
    const int high = (b.qh[32 * h + k % 32] >> (2 * (k / 32))) & 3;
    out[i] = (d * to_float(b.scales[i / 16])) * to_float((low | high << 4) - 32);
  }
}

void decode_block(const BlockIq4Nl& b, float* out) {
  const float d = decode_f16(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * to_float(kIq4Values[nibble(b.qs, i)]);
}

void decode_block(const BlockIq4Xs& b, float* out) {
  const float d = decode_f16(b.d);
  for (int i = 0; i < 256; ++i) {
    const int g = i / 32;
    const float scale = d * to_float(unpack_iq4_xs_scale(b, g));
    out[i] = scale * to_float(kIq4Values[nibble(b.qs + 16 * g, i % 32)]);
  }
}

template <int kGroup>
void decode_block(const BlockInt8<kGroup>& b, float* out) {
  const float d = decode_f16(b.d);
  for (int i = 0; i < kGroup; ++i) out[i] = to_float(b.qs[i]) * d;
}

template <int kGroup>
void decode_block(const BlockInt4<kGroup>& b, float* out) {
  const float d = decode_f16(b.d);
  for (int i = 0; i < kGroup; ++i) out[i] = d * to_float(nibble(b.qs + 16 * (i / 32), i % 32) - 8);
}

template <int kGroup>
void decode_block(const BlockInt4Offset<kGroup>& b, float* out) {
  const float d = decode_f16(b.d), m = decode_f16(b.m);
  for (int i = 0; i < kGroup; ++i) out[i] = d * to_float(nibble(b.qs + 16 * (i / 32), i % 32)) + m;
}

template <typename Block>
void decode_blocks(const std::byte* source, float* out, int64_t count) {
  for (int64_t i = 0; i < count; i += Block::kElements, source += sizeof(Block)) {
    Block block;
    std::memcpy(&block, source, sizeof(Block));
    decode_block(block, out + i);
  }
}

template <float (*decode)(uint16_t)>
void decode_halves(const std::byte* source, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, source + 2 * i, 2);
    out[i] = decode(bits);
  }
}

}  // namespace

void decode_elements(TensorType type, const void* source, float* out, int64_t count) {
  STRATA_ASSERT(count >= 0 && count % tensor_type_info(type).block_elements == 0);
  if (count == 0) return;
  const auto* bytes = static_cast<const std::byte*>(source);
  switch (type) {
    case TensorType::f32:
      std::memcpy(out, bytes, static_cast<size_t>(count) * sizeof(float));
      return;
    case TensorType::f16:
      return decode_halves<decode_f16>(bytes, out, count);
    case TensorType::bf16:
      return decode_halves<decode_bf16>(bytes, out, count);
    case TensorType::q4_0:
      return decode_blocks<BlockQ4_0>(bytes, out, count);
    case TensorType::q4_1:
      return decode_blocks<BlockQ4_1>(bytes, out, count);
    case TensorType::q5_0:
      return decode_blocks<BlockQ5_0>(bytes, out, count);
    case TensorType::q5_1:
      return decode_blocks<BlockQ5_1>(bytes, out, count);
    case TensorType::q8_0:
      return decode_blocks<BlockQ8_0>(bytes, out, count);
    case TensorType::q2_k:
      return decode_blocks<BlockQ2_K>(bytes, out, count);
    case TensorType::q3_k:
      return decode_blocks<BlockQ3_K>(bytes, out, count);
    case TensorType::q4_k:
      return decode_blocks<BlockQ4_K>(bytes, out, count);
    case TensorType::q5_k:
      return decode_blocks<BlockQ5_K>(bytes, out, count);
    case TensorType::q6_k:
      return decode_blocks<BlockQ6_K>(bytes, out, count);
    case TensorType::iq4_nl:
      return decode_blocks<BlockIq4Nl>(bytes, out, count);
    case TensorType::iq4_xs:
      return decode_blocks<BlockIq4Xs>(bytes, out, count);
    case TensorType::i8_g64:
      return decode_blocks<BlockInt8<64>>(bytes, out, count);
    case TensorType::i8_g128:
      return decode_blocks<BlockInt8<128>>(bytes, out, count);
    case TensorType::i4_g64:
      return decode_blocks<BlockInt4<64>>(bytes, out, count);
    case TensorType::i4_g128:
      return decode_blocks<BlockInt4<128>>(bytes, out, count);
    case TensorType::i4z_g64:
      return decode_blocks<BlockInt4Offset<64>>(bytes, out, count);
    case TensorType::i4z_g128:
      return decode_blocks<BlockInt4Offset<128>>(bytes, out, count);
  }
}

}  // namespace strata
