#include "ops/quantize_rows.h"

#include "base/error.h"
#include "ops/check.h"

namespace strata {
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
  each_row(x.rows, x.columns / 2, context,
           [&](int64_t r) { quantize(x.row<float>(r), x.columns, out.blocks + r * out.stride); });
  return out;
}

QuantizedRows quantize_residual(const Tensor& x, const QuantizedRows& rows, Arena& arena,
                                const OpContext& context) {
  STRATA_ASSERT(x.dtype == DType::f32 && rows.rows == x.rows && rows.columns == x.columns);
  const Tensor lost = arena.tensor(DType::f32, x.rows, x.columns);
  each_row(x.rows, x.columns / 2, context, [&](int64_t r) {
    const ActivationBlock* block = rows.blocks + r * rows.stride;
    for (int64_t c = 0; c < x.columns; c += ActivationBlock::kElements, ++block)
      for (int i = 0; i < ActivationBlock::kElements; ++i)
        lost.row<float>(r)[c + i] =
            x.row<float>(r)[c + i] - block->scale * static_cast<float>(block->q[i]);
  });
  return quantize_rows(lost, arena, context);
}

}  // namespace strata
