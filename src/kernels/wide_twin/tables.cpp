#include "kernels/wide_twin/tables_for_test.h"

namespace strata {

const KernelTable& wide_twin() {
  static const KernelTable table{IsaLevel::scalar,
                                 &kMatmulTableWideTwin,
                                 nullptr,
                                 &kRowTableWideTwin,
                                 kAttentionTableWideTwin,
                                 &kGemmTableWideTwin,
                                 &kTrainAttentionTableWideTwin,
                                 &kTrainRowTableWideTwin};
  return table;
}

const KernelTable& wide_vnni_twin() {
  static const KernelTable table = [] {
    KernelTable vnni = wide_twin();
    vnni.matmul = &kMatmulTableWideVnniTwin;
    return vnni;
  }();
  return table;
}

const KernelTable& wide_bf16_twin() {
  static const MatmulKernels products = [] {
    MatmulKernels p = kMatmulTableWideVnniTwin;
    constexpr auto kBf16 = static_cast<int>(TensorType::bf16);
    p.matmul[kBf16] = kMatmulTableWideBf16Twin.matmul[kBf16];
    p.bf16_activations = true;
    return p;
  }();
  static const KernelTable table = [] {
    KernelTable bf16 = wide_twin();
    bf16.matmul = &products;
    bf16.gemm_bf16 = &kGemmBf16TableWideTwin;
    return bf16;
  }();
  return table;
}

}  // namespace strata
