// The attention kernels for avx512: contract in attention.h, bodies in attention.inl.h.
#include "kernels/isa_tables.h"
#include "kernels/simd/vec_avx512.h"
// The bodies need the Vec above them.
#include "kernels/attention.inl.h"
#include "kernels/attention_quantized.inl.h"

namespace strata {

constinit const AttentionKernels kAttentionTableAvx512[kKvTypes] = {
    kTable<F32>, kTable<F16>, kTable<BF16>, kQuantizedTable<8>, kQuantizedTable<4>};

}  // namespace strata
