#include "ops/quantize_rows.h"

#include "base/error.h"

namespace strata {
namespace {

// Rows worth handing to another thread: some microseconds of work.
constexpr int64_t kElementsPerPiece = 16384;

}  // namespace

QuantizedRows allocate_quantized_rows(int64_t rows, int64_t columns, Arena& arena) {
  if (columns % ActivationBlock::kElements != 0)
    fail(ErrorCode::invalid_argument,
         "quantize_rows: x has {} columns; int8 activations come in blocks of {}", columns,
         ActivationBlock::kElements);
  const int64_t blocks = columns / ActivationBlock::kElements;
  void* memory = arena.allocate(sizeof(ActivationBlock) * static_cast<size_t>(rows * blocks));
  return {rows, columns, blocks, static_cast<ActivationBlock*>(memory)};
}

QuantizedRows quantize_rows(const Tensor& x, Arena& arena, const OpContext& context) {
  STRATA_ASSERT(x.dtype == DType::f32);
  const QuantizedRows out = allocate_quantized_rows(x.rows, x.columns, arena);
  const QuantizeRowFunction quantize = context.kernels->matmul->quantize_row;
  const int64_t grain =
      x.columns >= kElementsPerPiece ? 1 : kElementsPerPiece / (x.columns + 1) + 1;
  context.pool->parallel_for(x.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      quantize(x.row<float>(r), x.columns, out.blocks + r * out.stride);
  });
  return out;
}

}  // namespace strata
