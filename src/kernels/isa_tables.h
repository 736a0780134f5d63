#pragma once

#include "kernels/matmul.h"
#include "kernels/probe.h"

namespace strata {

// What the ISA files export, nothing else.
extern const MatmulKernels kMatmulScalar;
extern const MatmulKernels kMatmulAvx2;
extern const ProbeKernels kProbeScalar;
extern const ProbeKernels kProbeAvx2;

}  // namespace strata
