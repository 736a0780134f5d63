// The f32 products for avx512: contract in gemm.h, bodies in gemm.inl.h.
#include "kernels/isa_tables.h"
#include "kernels/simd/vec_avx512.h"
// The bodies need the Vec above them.
#include "kernels/gemm.inl.h"

namespace strata {

constinit const GemmKernels kGemmTableAvx512 = kTable;

}  // namespace strata
