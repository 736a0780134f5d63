#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/guarded_for_test.h"
#include "kernels/matmul.h"
#include "ops/packed_matrix.h"
#include "ops/random_matrix_for_test.h"
#include "support/tested_levels.h"

namespace strata {
namespace {

class MatmulGuard : public LevelTest {};

// `bytes` (a multiple of 4) in guarded memory.
Guarded guarded_copy(const void* from, int64_t bytes, Guard side) {
  std::vector<float> values(static_cast<size_t>(bytes) / sizeof(float));
  if (bytes > 0)  // else `from` may be null
    std::memcpy(values.data(), from, static_cast<size_t>(bytes));
  return Guarded(values, side);
}

// Weights, activations, bias and results end or begin at a page that may not be touched, and give
// the bits they give elsewhere.
TEST_P(MatmulGuard, NothingPastItsOperandsIsTouched) {
  ThreadPool pool(1);
  const MatmulKernels& kernels = *level_kernels().matmul;
  for (int i = 0; i < kTensorTypeCount; ++i) {
    const auto type = static_cast<TensorType>(i);
    const int block = tensor_type_info(type).block_elements;
    const int64_t in = block == 1 ? 33 : 2 * block;
    for (const int64_t out : {1, 8, 13, 21, 40}) {
      const PackedMatrix w(make_test_matrix(type, out, in, 3).source(), pool);
      for (const int64_t tokens : {1, 2, 5, 13, 101}) {
        const std::vector<float> x = test_values(tokens * in, 4), bias = test_values(out, 5);
        const int64_t blocks = in / ActivationBlock::kElements;
        std::vector<ActivationBlock> quantised(
            static_cast<size_t>(w.quantised() ? tokens * blocks : 0));
        if (w.quantised())
          for (int64_t t = 0; t < tokens; ++t)
            kernels.quantize_row(x.data() + t * in, in, quantised.data() + t * blocks);
        MatmulArgs args;
        args.weights = w.strip(0);
        args.strip_bytes = w.strip_bytes();
        args.in = in;
        args.rows = out;
        args.blocks = quantised.data();
        args.floats = x.data();
        args.x_stride = w.quantised() ? blocks : in;
        args.tokens = tokens;
        args.y_stride = out;
        args.bias = bias.data();
        std::vector<float> wanted(static_cast<size_t>(tokens * out));
        args.y = wanted.data();
        kernels.matmul[i](args);
        for (const Guard side : {Guard::before, Guard::after}) {
          const Guarded weights = guarded_copy(w.strip(0), w.strips() * w.strip_bytes(), side);
          const Guarded guarded_x(x, side), guarded_bias(bias, side), y(tokens * out, side);
          const Guarded guarded_blocks =
              guarded_copy(quantised.data(),
                           static_cast<int64_t>(quantised.size() * sizeof(ActivationBlock)), side);
          args.weights = reinterpret_cast<const std::byte*>(weights.data());
          args.floats = guarded_x.data();
          args.blocks = reinterpret_cast<const ActivationBlock*>(guarded_blocks.data());
          args.bias = guarded_bias.data();
          args.y = y.data();
          kernels.matmul[i](args);
          ASSERT_EQ(std::memcmp(y.data(), wanted.data(), wanted.size() * sizeof(float)), 0)
              << tensor_type_info(type).name << " M=" << tokens << " out=" << out;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, MatmulGuard, testing::ValuesIn(tested_levels()), name_of_level);

}  // namespace
}  // namespace strata
