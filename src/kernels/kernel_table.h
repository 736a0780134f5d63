#pragma once

#include "base/cpu.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/matmul.h"
#include "kernels/probe.h"
#include "kernels/rows.h"
#include "kernels/train_attention.h"
#include "kernels/train_rows.h"

namespace strata {

// The kernels of one instruction-set level, by family. A family lives in files
// of its own: a header with its signatures, one body (`*.inl.h`) over simd/,
// one isa_<level>_<family>.cpp per level that exports one table.
struct KernelTable {
  IsaLevel level = IsaLevel::scalar;
  const MatmulKernels* matmul = nullptr;
  const ProbeKernels* probe = nullptr;
  const RowKernels* rows = nullptr;
  const AttentionKernels* attention = nullptr;  // [by KvType]
  const GemmKernels* gemm = nullptr;
  const TrainAttentionKernels* train_attention = nullptr;
  const TrainRowKernels* train_rows = nullptr;
  const GemmKernels* gemm_bf16 = nullptr;  // nullptr: the level has no products of bf16 pairs
};

const KernelTable& kernel_table(IsaLevel level);

}  // namespace strata
