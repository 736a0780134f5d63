// The products of pairs of bf16 for avx512_bf16: contract in gemm.h, bodies in gemm_bf16.inl.h.
#include "kernels/isa_tables.h"
#include "kernels/simd/vec_avx512.h"
// The bodies need the Vec above them.
#include "kernels/gemm_bf16.inl.h"

namespace strata {

constinit const GemmKernels kGemmBf16TableAvx512Bf16 = kTable;

}  // namespace strata
