// The row kernels of training, avx512: contract in train_rows.h, bodies in train_rows.inl.h.
#include "kernels/isa_tables.h"
#include "kernels/simd/vec_avx512.h"
// The bodies need the Vec above them.
#include "kernels/train_rows.inl.h"

namespace strata {

constinit const TrainRowKernels kTrainRowTableAvx512 = kTable;

}  // namespace strata
