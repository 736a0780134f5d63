#include "ops/dropout.h"

#include <algorithm>

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
  const auto limit = static_cast<uint64_t>(double{mask.probability} * 0x1p32);
  const float scale = 1.0f / (1.0f - mask.probability);
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(mask.seed),
                                       static_cast<uint32_t>(mask.seed >> 32)};
  const uint32_t purpose = static_cast<uint32_t>(RandomPurpose::dropout) | mask.place << 4;
  context.pool->parallel_for(
      x.rows, rows_per_piece(8 * x.columns), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const float* from = x.row<float>(n);
          float* to = y.row<float>(n);
          int64_t c = 0;
          while (c < x.columns) {
            const int64_t element = n * x.columns + c, block = element / 4;
            const auto words = philox4x32({static_cast<uint32_t>(block), mask.step, purpose,
                                           static_cast<uint32_t>(block >> 32)},
                                          key);
            const int64_t last = std::min(x.columns, c + 4 - element % 4);
            for (int64_t word = element % 4; c < last; ++c, ++word)
              to[c] = words[static_cast<size_t>(word)] >= limit ? from[c] * scale : 0.0f;
          }
        }
      });
}

}  // namespace strata
