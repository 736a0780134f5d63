#pragma once

#include "kernels/matmul.h"

namespace strata {

// What the ISA files export, nothing else.
extern const MatmulKernels kMatmulScalar;
extern const MatmulKernels kMatmulAvx2;

}  // namespace strata
