// The f32 products for scalar: contract in gemm.h, bodies in gemm.inl.h.
#include "kernels/isa_tables.h"
#include "kernels/simd/vec_scalar.h"
// The bodies need the Vec above them.
#include "kernels/gemm.inl.h"

namespace strata {

constinit const GemmKernels kGemmTableScalar = kTable;

}  // namespace strata
