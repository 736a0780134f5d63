#pragma once

#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/matmul.h"
#include "kernels/probe.h"
#include "kernels/rows.h"
#include "kernels/train_attention.h"
#include "kernels/train_rows.h"

namespace strata {

// What the ISA files export, nothing else.
extern const MatmulKernels kMatmulTableScalar;
extern const MatmulKernels kMatmulTableAvx2;
extern const ProbeKernels kProbeTableScalar;
extern const ProbeKernels kProbeTableAvx2;
extern const RowKernels kRowTableScalar;
extern const RowKernels kRowTableAvx2;
extern const AttentionKernels kAttentionTableScalar[kKvTypes];  // by KvType
extern const AttentionKernels kAttentionTableAvx2[kKvTypes];
extern const GemmKernels kGemmTableScalar;
extern const GemmKernels kGemmTableAvx2;
extern const TrainAttentionKernels kTrainAttentionTableScalar;
extern const TrainAttentionKernels kTrainAttentionTableAvx2;
extern const TrainRowKernels kTrainRowTableScalar;
extern const TrainRowKernels kTrainRowTableAvx2;

}  // namespace strata
