// The attention kernels for scalar: contract in attention.h, bodies in attention.inl.h.
#include "kernels/isa_tables.h"
#include "kernels/simd/vec_scalar.h"
// The bodies need the Vec above them.
#include "kernels/attention.inl.h"

namespace strata {

constinit const AttentionKernels kAttentionTableScalar[3] = {kTable<F32>, kTable<F16>,
                                                             kTable<BF16>};

}  // namespace strata
