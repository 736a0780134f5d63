// The row kernels for avx512: contract in rows.h, bodies in rows.inl.h.
#include "kernels/isa_tables.h"
#include "kernels/simd/vec_avx512.h"
// The bodies need the Vec above them.
#include "kernels/rows.inl.h"

namespace strata {

constinit const RowKernels kRowTableAvx512 = kTable;

}  // namespace strata
