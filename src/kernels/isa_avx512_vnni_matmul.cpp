#include "kernels/isa_tables.h"
#include "kernels/simd/lanes_avx512.h"
// The sums need the lanes above them.
#include "kernels/simd/dots_vnni.h"
// The quantised products of avx512 with vpdpbusd.
namespace strata {
namespace {
#include "kernels/matmul_format.inl.h"

#include "kernels/matmul_panel.inl.h"

#include "kernels/matmul.inl.h"
}  // namespace

constinit const MatmulKernels kMatmulTableAvx512Vnni =
    make_matmul_kernels<false, &kMatmulTableAvx512VnniFew>(nullptr);

}  // namespace strata
