#include "kernels/isa_tables.h"
#include "kernels/simd/lanes_avx512.h"
// The sums need the lanes above them.
#include "kernels/simd/dots_vnni.h"
#include "kernels/simd/elements.h"
// The product of bf16 weights with vdpbf16ps.
namespace strata {
namespace {
#include "kernels/matmul_format.inl.h"

#include "kernels/matmul_bf16.inl.h"
}  // namespace

constinit const MatmulKernels kMatmulTableAvx512Bf16 = make_bf16_kernels();

}  // namespace strata
