#include "kernels/simd/lanes_scalar.h"
#include "kernels/wide_twin/tables_for_test.h"
// The sums need the lanes above them.
#include "kernels/simd/dots_vnni.h"
#include "kernels/simd/elements.h"
namespace strata {
namespace {
#include "kernels/matmul_format.inl.h"

#include "kernels/matmul_bf16.inl.h"
}  // namespace

const MatmulKernels kMatmulTableWideBf16Twin = make_bf16_kernels();

}  // namespace strata
