#include "ops/packed_matrix.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "ops/random_matrix_for_test.h"

namespace strata {
namespace {

TEST(PackedMatrix, EveryRowIsReadBackExactly) {
  ThreadPool pool(3);
  for (int i = 0; i < kTensorTypeCount; ++i) {
    const auto type = static_cast<TensorType>(i);
    const TestMatrix m = make_test_matrix(type, 21, 256, 5);
    const PackedMatrix packed(m.source(), pool);
    EXPECT_EQ(packed.strips(), 3);
    EXPECT_EQ(packed.bytes(), 3 * packed.strip_bytes());
    std::vector<float> wanted(256), got(256);
    for (int64_t r = 0; r < 21; ++r) {
      decode_elements(type, m.row(r), wanted.data(), 256);
      unpack_row(packed, r, got.data());
      ASSERT_EQ(got, wanted) << tensor_type_info(type).name << " row " << r;
    }
    EXPECT_THROW(unpack_row(packed, 21, got.data()), Error);
    EXPECT_THROW(unpack_row(packed, -1, got.data()), Error);
  }
}

TEST(PackedMatrix, ReadsTransposedAndFusedFiles) {
  ThreadPool pool(1);
  // The file holds [3, 4] = 0..11; the matrix is columns 1..2 transposed: [2, 3].
  std::vector<float> file(12);
  for (int i = 0; i < 12; ++i) file[i] = static_cast<float>(i);
  MatrixSource source{"w", TensorType::f32, 2, 3, std::as_bytes(std::span(file)).subspan(4), 4, 16};
  const PackedMatrix packed(source, pool);
  std::vector<float> row(3);
  unpack_row(packed, 0, row.data());
  EXPECT_EQ(row, (std::vector<float>{1, 5, 9}));
  unpack_row(packed, 1, row.data());
  EXPECT_EQ(row, (std::vector<float>{2, 6, 10}));
}

TEST(PackedMatrix, RefusesStridesThatLeaveTheData) {
  ThreadPool pool(1);
  const TestMatrix m = make_test_matrix(TensorType::q4_0, 4, 64, 6);
  const auto refused = [&](auto change) {
    MatrixSource source = m.source();
    change(source);
    try {
      const PackedMatrix packed(source, pool);
    } catch (const Error& error) {
      return error.code() == ErrorCode::data_corrupt;
    }
    return false;
  };
  EXPECT_FALSE(refused([](MatrixSource&) {}));
  EXPECT_TRUE(refused([](MatrixSource& s) { s.out = 5; }));
  EXPECT_TRUE(refused([](MatrixSource& s) { s.out = 0; }));
  EXPECT_TRUE(refused([](MatrixSource& s) { s.out = INT64_MAX; }));
  EXPECT_TRUE(refused([](MatrixSource& s) { s.in = 48; }));
  EXPECT_TRUE(refused([](MatrixSource& s) { s.in = INT64_MAX / 32 * 32; }));
  EXPECT_TRUE(refused([](MatrixSource& s) { s.row_stride += 1; }));
  EXPECT_TRUE(refused([](MatrixSource& s) { s.row_stride = -36; }));
  EXPECT_TRUE(refused([](MatrixSource& s) { s.bytes = s.bytes.first(s.bytes.size() - 1); }));
}

}  // namespace
}  // namespace strata
