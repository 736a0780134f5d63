#include "kernels/simd/vec_scalar.h"
#include "kernels/wide_twin/tables_for_test.h"
// The bodies need the Vec above them.
#include "kernels/gemm_bf16.inl.h"

namespace strata {

const GemmKernels kGemmBf16TableWideTwin = kTable;

}  // namespace strata
