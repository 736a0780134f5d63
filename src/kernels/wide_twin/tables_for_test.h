#pragma once

#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/kernel_table.h"
#include "kernels/matmul.h"
#include "kernels/rows.h"
#include "kernels/train_attention.h"
#include "kernels/train_rows.h"

namespace strata {

// The bodies of the kernels over vectors of 512 bits in plain C++: what only the AVX-512 levels
// reach (16 lanes, two strips a vector, sums of vpdpbusd) runs on every machine's tests. What it
// does not show is whether the intrinsics do what the plain lanes say.
extern const AttentionKernels kAttentionTableWideTwin[kKvTypes];
extern const GemmKernels kGemmTableWideTwin;
extern const GemmKernels kGemmBf16TableWideTwin;
extern const MatmulKernels kMatmulTableWideTwin;      // sums in 16 bits, as avx512
extern const MatmulKernels kMatmulTableWideVnniTwin;  // in 32 bits, as avx512_vnni
extern const MatmulKernels kMatmulTableWideBf16Twin;  // the product of bf16 weights alone
extern const RowKernels kRowTableWideTwin;
extern const TrainAttentionKernels kTrainAttentionTableWideTwin;
extern const TrainRowKernels kTrainRowTableWideTwin;

// Tables that call themselves scalar; they have no probe.
const KernelTable& wide_twin();
const KernelTable& wide_vnni_twin();
const KernelTable& wide_bf16_twin();

}  // namespace strata
