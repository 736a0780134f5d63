#include "kernels/simd/vec_scalar.h"
#include "kernels/wide_twin/tables_for_test.h"
// The bodies need the Vec above them.
#include "kernels/attention.inl.h"
#include "kernels/attention_quantized.inl.h"

namespace strata {

const AttentionKernels kAttentionTableWideTwin[kKvTypes] = {kTable<F32>, kTable<F16>, kTable<BF16>,
                                                            kQuantizedTable<8>, kQuantizedTable<4>};

}  // namespace strata
