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
extern const RowKernels kRowsScalar;
extern const RowKernels kRowsAvx2;
extern const AttentionKernels kAttentionScalar[3];  // by KvType
extern const AttentionKernels kAttentionAvx2[3];

}  // namespace strata
