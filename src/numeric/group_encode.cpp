#include "numeric/group_encode.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "numeric/blocks.h"
#include "numeric/half.h"

namespace strata {
namespace {

// The nearest f16 and what it stands for.
struct Scale {
  explicit Scale(float wanted) : bits(encode_f16(wanted)), value(decode_f16(bits)) {}
  bool finite() const { return std::isfinite(value); }
  uint16_t bits;
  float value;
};

int nearest(float value, int least, int most) {
  return static_cast<int>(
      std::clamp(std::nearbyint(value), static_cast<float>(least), static_cast<float>(most)));
}

// Columns 0..15 of 32 in the low nibbles, 16..31 in the high ones.
void put_nibble(uint8_t* qs, int i, int code) {
  uint8_t& byte = qs[16 * (i / 32) + i % 16];
  byte = static_cast<uint8_t>(i % 32 < 16 ? code : byte | code << 4);
}

template <typename Block>
bool encode_int8(const float* x, Block& block) {
  float amax = 0;
  for (int i = 0; i < Block::kElements; ++i) amax = std::max(amax, std::fabs(x[i]));
  const Scale d(amax / 127);
  block.d = d.bits;
  for (int i = 0; i < Block::kElements; ++i)
    block.qs[i] = static_cast<int8_t>(d.value == 0 ? 0 : nearest(x[i] / d.value, -127, 127));
  return d.finite();
}

template <typename Block>
bool encode_int4(const float* x, Block& block) {
  float extreme = 0;
  for (int i = 0; i < Block::kElements; ++i)
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  const Scale d(extreme / -8);
  block.d = d.bits;
  for (int i = 0; i < Block::kElements; ++i)
    put_nibble(block.qs, i, d.value == 0 ? 8 : nearest(x[i] / d.value + 8, 0, 15));
  return d.finite();
}

template <typename Block>
bool encode_int4_offset(const float* x, Block& block) {
  const auto [least, most] = std::minmax_element(x, x + Block::kElements);
  const Scale m(*least), d((*most - m.value) / 15);
  block.d = d.bits;
  block.m = m.bits;
  for (int i = 0; i < Block::kElements; ++i)
    put_nibble(block.qs, i, d.value == 0 ? 0 : nearest((x[i] - m.value) / d.value, 0, 15));
  return d.finite() && m.finite();
}

template <typename Block, bool (*encode)(const float*, Block&)>
bool encode_blocks(const float* x, void* out, int64_t count) {
  auto* to = static_cast<std::byte*>(out);
  for (int64_t i = 0; i < count; i += Block::kElements, to += sizeof(Block)) {
    for (int j = 0; j < Block::kElements; ++j)
      if (!std::isfinite(x[i + j])) return false;
    Block block;
    if (!encode(x + i, block)) return false;
    std::memcpy(to, &block, sizeof(Block));
  }
  return true;
}

using EncodeFunction = bool (*)(const float*, void*, int64_t);

EncodeFunction encoder(TensorType type) {
  switch (type) {
    case TensorType::q8_0:
      return encode_blocks<BlockQ8_0, encode_int8>;
    case TensorType::i8_g64:
      return encode_blocks<BlockInt8<64>, encode_int8>;
    case TensorType::i8_g128:
      return encode_blocks<BlockInt8<128>, encode_int8>;
    case TensorType::q4_0:
      return encode_blocks<BlockQ4_0, encode_int4>;
    case TensorType::i4_g64:
      return encode_blocks<BlockInt4<64>, encode_int4>;
    case TensorType::i4_g128:
      return encode_blocks<BlockInt4<128>, encode_int4>;
    case TensorType::q4_1:
      return encode_blocks<BlockQ4_1, encode_int4_offset>;
    case TensorType::i4z_g64:
      return encode_blocks<BlockInt4Offset<64>, encode_int4_offset>;
    case TensorType::i4z_g128:
      return encode_blocks<BlockInt4Offset<128>, encode_int4_offset>;
    default:
      return nullptr;
  }
}

}  // namespace

bool is_group_type(TensorType type) { return encoder(type) != nullptr; }

bool encode_groups(TensorType type, const float* x, void* out, int64_t count) {
  const EncodeFunction encode = encoder(type);
  STRATA_ASSERT(encode != nullptr && count >= 0 &&
                count % tensor_type_info(type).block_elements == 0);
  return encode(x, out, count);
}

}  // namespace strata
