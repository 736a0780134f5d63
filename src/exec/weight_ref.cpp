#include "exec/weight_ref.h"

#include <cstring>

#include "base/error.h"

namespace strata {

void decode_weight_row(const WeightRef& weight, int64_t row, float* out) {
  STRATA_ASSERT(row >= 0 && row < weight.out);
  const TensorTypeInfo& type = tensor_type_info(weight.type);
  const std::byte* source = weight.bytes.data() + row * weight.row_stride;
  if (type.block_elements > 1 || weight.element_stride == type.block_bytes) {
    decode_elements(weight.type, source, out, weight.in);
    return;
  }
  for (int64_t i = 0; i < weight.in; ++i)
    decode_elements(weight.type, source + i * weight.element_stride, out + i, 1);
}

}  // namespace strata
