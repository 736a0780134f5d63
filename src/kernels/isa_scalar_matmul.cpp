#include "kernels/isa_tables.h"
#include "kernels/simd/lanes_scalar.h"
// The sums need the lanes above them.
#include "kernels/simd/dots_words.h"
namespace strata {
namespace {
#include "kernels/quantize.inl.h"

#include "kernels/matmul_format.inl.h"

#include "kernels/matmul_panel.inl.h"

#include "kernels/matmul.inl.h"
}  // namespace

constinit const MatmulKernels kMatmulTableScalar = make_matmul_kernels<true>(quantize_row);

}  // namespace strata
