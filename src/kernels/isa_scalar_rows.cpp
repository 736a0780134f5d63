// The row kernels for scalar: contract in rows.h, bodies in rows.inl.h.
#include "kernels/isa_tables.h"
#include "kernels/simd/vec_scalar.h"
// The bodies need the Vec above them.
#include "kernels/rows.inl.h"

namespace strata {

constinit const RowKernels kRowTableScalar = kTable;

}  // namespace strata
