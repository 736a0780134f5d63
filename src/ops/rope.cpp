#include "ops/rope.h"

#include <algorithm>

#include "ops/check.h"

namespace strata {

void rope(const Tensor& x, int heads, int head_size, const RopeAngles& angles,
          const int32_t* position, RopeDirection direction, const Tensor& y,
          const OpContext& context) {
  check_shape("rope", "x", x, x.rows, int64_t{heads} * head_size);
  check_like("rope", "y", y, x);
  const int64_t turned = 2 * angles.size;
  if (turned > head_size)
    fail(ErrorCode::invalid_argument, "rope: angles turn {} elements, head_size is {}", turned,
         head_size);
  for (int64_t n = 0; n < x.rows; ++n)
    if (position[n] < 0 || position[n] >= angles.positions)
      fail(ErrorCode::invalid_argument, "rope: row {} has position {}, there are angles for {}", n,
           position[n], angles.positions);
  const RowKernels& rows = *context.kernels->rows;
  const TrainRowKernels& back = *context.kernels->train_rows;
  const bool forward = direction == RopeDirection::forward;
  const bool halves = angles.layout == RopeLayout::halves;
  const auto kernel = halves ? (forward ? rows.rope_halves : back.rope_halves_backward)
                             : (forward ? rows.rope_pairs : back.rope_pairs_backward);
  const int64_t length = halves ? angles.size : turned;
  context.pool->parallel_for(x.rows, rows_per_piece(x.columns), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* cosines = angles.cosines + position[n] * angles.stride;
      const float* sines = angles.sines + position[n] * angles.stride;
      for (int64_t h = 0; h < heads; ++h) {
        const float* from = x.row<float>(n) + h * head_size;
        float* to = y.row<float>(n) + h * head_size;
        kernel(from, cosines, sines, length, to);
        if (from != to) std::copy(from + turned, from + head_size, to + turned);
      }
    }
  });
}

}  // namespace strata
