#include "kernels/isa_tables.h"
#include "kernels/simd/lanes_avx512.h"
// The sums need the lanes above them.
#include "kernels/simd/dots_words.h"
// Compiled with -m flags: only what is in an anonymous namespace and
// the table itself may be emitted here.
namespace strata {
namespace {
#include "kernels/quantize.inl.h"

#include "kernels/matmul_format.inl.h"

#include "kernels/matmul_panel.inl.h"

#include "kernels/matmul.inl.h"
}  // namespace

constinit const MatmulKernels kMatmulTableAvx512 =
    make_matmul_kernels<true, &kMatmulTableAvx2>(quantize_row);

}  // namespace strata
