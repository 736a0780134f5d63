#include "kernels/simd/lanes_scalar.h"
#include "kernels/wide_twin/tables_for_test.h"
// The sums need the lanes above them.
#include "kernels/simd/dots_vnni.h"
namespace strata {
namespace {
#include "kernels/quantize.inl.h"

#include "kernels/matmul_format.inl.h"

#include "kernels/matmul_panel.inl.h"

#include "kernels/matmul.inl.h"
}  // namespace

const MatmulKernels kMatmulTableWideVnniTwin = make_matmul_kernels<true>(quantize_row);

}  // namespace strata
