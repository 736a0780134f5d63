#include "kernels/isa_tables.h"
#include "kernels/simd/vec8_scalar.h"
namespace strata {
namespace {
#include "kernels/quantize.inl.h"

#include "kernels/matmul_format.inl.h"

#include "kernels/matmul_panel.inl.h"

#include "kernels/matmul.inl.h"
}  // namespace

constinit const MatmulKernels kMatmulTableScalar = make_matmul_kernels();

}  // namespace strata
