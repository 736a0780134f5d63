#include "ops/dropout.h"

#include <algorithm>
#include <iterator>

#include "base/philox.h"
#include "ops/check.h"

namespace strata {

void dropout(const Tensor& x, const DropoutMask& mask, const Tensor& y, const OpContext& context) {
  check_like("dropout", "x", x, x);
  check_like("dropout", "y", y, x);
  if (!(mask.probability >= 0 && mask.probability < 1))
    fail(ErrorCode::invalid_argument, "dropout: probability is {}, wanted 0 to below 1",
         mask.probability);
  if (mask.place >= 1u << 28)
    fail(ErrorCode::invalid_argument, "dropout: place is {}, wanted less than 2^28", mask.place);
  const auto limit = static_cast<uint32_t>(double{mask.probability} * 0x1p32);
  const float scale = 1.0f / (1.0f - mask.probability);
  const uint32_t purpose = static_cast<uint32_t>(RandomPurpose::dropout) | mask.place << 4;
  const TrainRowKernels& kernels = *context.kernels->train_rows;
  context.pool->parallel_for(
      x.rows, rows_per_piece(8 * x.columns), [&](int64_t begin, int64_t end) {
        uint32_t words[256];
        for (int64_t n = begin; n < end; ++n) {
          const float* from = x.row<float>(n);
          float* to = y.row<float>(n);
          for (int64_t c = 0; c < x.columns;) {
            const int64_t element = n * x.columns + c, block = element / 4, skipped = element % 4;
            const auto low = static_cast<uint32_t>(block),
                       high = static_cast<uint32_t>(block >> 32);
            // Up to where the row ends, the memory, or word 3 of the counter changes.
            const int64_t blocks =
                std::min({(skipped + x.columns - c + 3) / 4, int64_t{std::size(words)} / 4,
                          (int64_t{1} << 32) - int64_t{low}});
            kernels.philox(
                {{static_cast<uint32_t>(mask.seed), static_cast<uint32_t>(mask.seed >> 32)},
                 low,
                 {mask.step, purpose, high}},
                blocks, words);
            const int64_t count = std::min(x.columns - c, 4 * blocks - skipped);
            for (int64_t i = 0; i < count; ++i)
              to[c + i] = words[skipped + i] >= limit ? from[c + i] * scale : 0.0f;
            c += count;
          }
        }
      });
}

}  // namespace strata
