#include "kernels/simd/vec_scalar.h"
#include "kernels/wide_twin/tables_for_test.h"
// The bodies need the Vec above them.
#include "kernels/train_rows.inl.h"

namespace strata {

const TrainRowKernels kTrainRowTableWideTwin = kTable;

}  // namespace strata
