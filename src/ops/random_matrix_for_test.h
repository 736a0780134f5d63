#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "numeric/half.h"
#include "numeric/packed.h"
#include "ops/packed_matrix.h"

namespace strata {

// splitmix64 (Steele, Lea, Flood 2014).
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  // In [-1, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-52 - 1; }

 private:
  uint64_t state_;
};

// A matrix file in memory: every code and integer scale occurs, f16 scales are of both signs and
// moderate size.
struct TestMatrix {
  TensorType type;
  int64_t out, in;
  std::vector<std::byte> file;

  MatrixSource source() const {
    const TensorTypeInfo& info = tensor_type_info(type);
    return {
        "w", type, out, in, file, in / info.block_elements * info.block_bytes, info.block_bytes};
  }
  const std::byte* row(int64_t r) const { return file.data() + r * source().row_stride; }
};

// Offsets of the f16 fields in a block.
inline std::vector<int> half_fields(TensorType type) {
  switch (type) {
    case TensorType::q4_1:
    case TensorType::q5_1:
    case TensorType::q4_k:
    case TensorType::q5_k:
    case TensorType::i4z_g64:
    case TensorType::i4z_g128:
      return {0, 2};
    case TensorType::q2_k:
      return {80, 82};
    case TensorType::q3_k:
      return {108};
    case TensorType::q6_k:
      return {208};
    default:
      return {0};
  }
}

enum class TestCodes { random, largest, smallest };

inline TestMatrix make_test_matrix(TensorType type, int64_t out, int64_t in, uint64_t seed,
                                   TestCodes codes = TestCodes::random) {
  const TensorTypeInfo& info = tensor_type_info(type);
  TestMatrix m{type, out, in, {}};
  TestRandom random(seed);
  m.file.resize(static_cast<size_t>(out * in / info.block_elements * info.block_bytes));
  const auto put = [&](size_t at, uint16_t v) {
    m.file[at] = std::byte(v & 255);
    m.file[at + 1] = std::byte(v >> 8);
  };
  if (!is_quantised(type)) {
    for (size_t i = 0; i < m.file.size(); i += info.block_bytes) {
      const auto value = static_cast<float>(random.uniform());
      if (type == TensorType::f32)
        __builtin_memcpy(&m.file[i], &value, 4);
      else
        put(i, type == TensorType::f16 ? encode_f16(value) : encode_bf16(value));
    }
    return m;
  }
  const bool two_s_complement = packed_shape(type).codes == Codes::s8;
  for (std::byte& b : m.file) {
    b = std::byte(random.bits() >> 56);
    if (codes == TestCodes::largest) b = two_s_complement ? std::byte{0x7f} : std::byte{0xff};
    if (codes == TestCodes::smallest) b = two_s_complement ? std::byte{0x80} : std::byte{0x00};
  }
  for (size_t block = 0; block < m.file.size(); block += info.block_bytes)
    for (int field : half_fields(type))
      put(block + field, encode_f16(static_cast<float>(random.uniform() * 0.1)));
  return m;
}

}  // namespace strata
