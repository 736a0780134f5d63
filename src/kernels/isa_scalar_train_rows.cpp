// The row kernels of training, scalar: contract in train_rows.h, bodies in train_rows.inl.h.
#include "kernels/isa_tables.h"
#include "kernels/simd/vec_scalar.h"
// The bodies need the Vec above them.
#include "kernels/train_rows.inl.h"

namespace strata {

constinit const TrainRowKernels kTrainRowTableScalar = kTable;

}  // namespace strata
