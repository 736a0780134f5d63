#include "kernels/simd/vec_scalar.h"
#include "kernels/wide_twin/tables_for_test.h"
// The bodies need the Vec above them.
#include "kernels/rows.inl.h"

namespace strata {

const RowKernels kRowTableWideTwin = kTable;

}  // namespace strata
