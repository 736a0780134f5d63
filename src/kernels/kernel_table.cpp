#include "kernels/kernel_table.h"

#include "kernels/isa_tables.h"

namespace strata {

const KernelTable& kernel_table(IsaLevel level) {
  static constexpr KernelTable kTables[kIsaLevelCount] = {
      {IsaLevel::scalar, &kMatmulTableScalar, &kProbeTableScalar, &kRowTableScalar,
       kAttentionTableScalar, &kGemmTableScalar, &kTrainAttentionTableScalar,
       &kTrainRowTableScalar},
      {IsaLevel::avx2, &kMatmulTableAvx2, &kProbeTableAvx2, &kRowTableAvx2, kAttentionTableAvx2,
       &kGemmTableAvx2, &kTrainAttentionTableAvx2, &kTrainRowTableAvx2},
  };
  return kTables[static_cast<int>(level)];
}

}  // namespace strata
