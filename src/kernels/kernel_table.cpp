#include "kernels/kernel_table.h"

#include "kernels/isa_tables.h"

namespace strata {
namespace {

// `base` with those products that `better` has.
MatmulKernels with_products(MatmulKernels base, const MatmulKernels& better) {
  for (int type = 0; type < kTensorTypeCount; ++type)
    if (better.matmul[type] != nullptr) base.matmul[type] = better.matmul[type];
  base.bf16_activations |= better.bf16_activations;
  return base;
}

ProbeKernels with_int8(ProbeKernels base, const ProbeKernels& better) {
  base.int8_u4 = better.int8_u4;
  base.int8_u5 = better.int8_u5;
  base.int8_u6 = better.int8_u6;
  base.int8_s8 = better.int8_s8;
  return base;
}

// Every level is the one it builds on, but for what it does better.
struct Tables {
  MatmulKernels avx_vnni_matmul = with_products(kMatmulTableAvx2, kMatmulTableAvxVnni);
  MatmulKernels avx512_vnni_matmul = with_products(kMatmulTableAvx512, kMatmulTableAvx512Vnni);
  MatmulKernels avx512_bf16_matmul = with_products(avx512_vnni_matmul, kMatmulTableAvx512Bf16);
  ProbeKernels avx_vnni_probe = with_int8(kProbeTableAvx2, kProbeTableAvxVnni);
  ProbeKernels avx512_vnni_probe = with_int8(kProbeTableAvx512, kProbeTableAvx512Vnni);

  KernelTable scalar{IsaLevel::scalar,
                     &kMatmulTableScalar,
                     &kProbeTableScalar,
                     &kRowTableScalar,
                     kAttentionTableScalar,
                     &kGemmTableScalar,
                     &kTrainAttentionTableScalar,
                     &kTrainRowTableScalar};
  KernelTable avx2{
      IsaLevel::avx2,      &kMatmulTableAvx2, &kProbeTableAvx2,          &kRowTableAvx2,
      kAttentionTableAvx2, &kGemmTableAvx2,   &kTrainAttentionTableAvx2, &kTrainRowTableAvx2};
  KernelTable avx_vnni = avx2;
  KernelTable avx512{IsaLevel::avx512,
                     &kMatmulTableAvx512,
                     &kProbeTableAvx512,
                     &kRowTableAvx512,
                     kAttentionTableAvx512,
                     &kGemmTableAvx512,
                     &kTrainAttentionTableAvx512,
                     &kTrainRowTableAvx512};
  KernelTable avx512_vnni = avx512;
  KernelTable avx512_bf16 = avx512;

  Tables() {
    avx_vnni.level = IsaLevel::avx_vnni;
    avx_vnni.matmul = &avx_vnni_matmul;
    avx_vnni.probe = &avx_vnni_probe;
    avx512_vnni.level = IsaLevel::avx512_vnni;
    avx512_vnni.matmul = &avx512_vnni_matmul;
    avx512_vnni.probe = &avx512_vnni_probe;
    avx512_bf16 = avx512_vnni;
    avx512_bf16.level = IsaLevel::avx512_bf16;
    avx512_bf16.matmul = &avx512_bf16_matmul;
    avx512_bf16.gemm_bf16 = &kGemmBf16TableAvx512Bf16;
  }
};

}  // namespace

const KernelTable& kernel_table(IsaLevel level) {
  static const Tables tables;
  switch (level) {
    case IsaLevel::scalar:
      return tables.scalar;
    case IsaLevel::avx2:
      return tables.avx2;
    case IsaLevel::avx_vnni:
      return tables.avx_vnni;
    case IsaLevel::avx512:
      return tables.avx512;
    case IsaLevel::avx512_vnni:
      return tables.avx512_vnni;
    case IsaLevel::avx512_bf16:
      return tables.avx512_bf16;
  }
  return tables.scalar;
}

}  // namespace strata
