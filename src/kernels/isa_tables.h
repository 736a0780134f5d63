#pragma once

#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/probe.h"
#include "kernels/rows.h"

namespace strata {

// What the ISA files export, nothing else.
extern const MatmulKernels kMatmulScalar;
extern const MatmulKernels kMatmulAvx2;
extern const ProbeKernels kProbeScalar;
extern const ProbeKernels kProbeAvx2;
extern const RowKernels kRowTableScalar;
extern const RowKernels kRowTableAvx2;
extern const AttentionKernels kAttentionTableScalar[3];  // by KvType
extern const AttentionKernels kAttentionTableAvx2[3];

}  // namespace strata
