#pragma once

#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/matmul.h"
#include "kernels/probe.h"
#include "kernels/rows.h"
#include "kernels/train_attention.h"
#include "kernels/train_rows.h"

namespace strata {

// What the ISA files export, nothing else. A member that is nullptr is taken from the level below.
extern const MatmulKernels kMatmulTableScalar;
extern const MatmulKernels kMatmulTableAvx2;
extern const MatmulKernels kMatmulTableAvxVnni;  // the quantised products
extern const MatmulKernels kMatmulTableAvx512;
extern const MatmulKernels kMatmulTableAvx512Vnni;     // the quantised products
extern const MatmulKernels kMatmulTableAvx512VnniFew;  // those of few tokens
extern const MatmulKernels kMatmulTableAvx512Bf16;     // the product of bf16 weights
extern const ProbeKernels kProbeTableScalar;
extern const ProbeKernels kProbeTableAvx2;
extern const ProbeKernels kProbeTableAvxVnni;  // int8
extern const ProbeKernels kProbeTableAvx512;
extern const ProbeKernels kProbeTableAvx512Vnni;  // int8
extern const RowKernels kRowTableScalar;
extern const RowKernels kRowTableAvx2;
extern const RowKernels kRowTableAvx512;
extern const AttentionKernels kAttentionTableScalar[kKvTypes];  // by KvType
extern const AttentionKernels kAttentionTableAvx2[kKvTypes];
extern const AttentionKernels kAttentionTableAvx512[kKvTypes];
extern const GemmKernels kGemmTableScalar;
extern const GemmKernels kGemmTableAvx2;
extern const GemmKernels kGemmTableAvx512;
extern const GemmKernels kGemmBf16TableAvx512Bf16;
extern const TrainAttentionKernels kTrainAttentionTableScalar;
extern const TrainAttentionKernels kTrainAttentionTableAvx2;
extern const TrainAttentionKernels kTrainAttentionTableAvx512;
extern const TrainRowKernels kTrainRowTableScalar;
extern const TrainRowKernels kTrainRowTableAvx2;
extern const TrainRowKernels kTrainRowTableAvx512;

}  // namespace strata
