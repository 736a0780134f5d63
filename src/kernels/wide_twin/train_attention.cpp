#include "kernels/simd/vec_scalar.h"
#include "kernels/wide_twin/tables_for_test.h"
// The bodies need the Vec above them.
#include "kernels/train_attention_backward.inl.h"

namespace strata {

const TrainAttentionKernels kTrainAttentionTableWideTwin = kTable;

}  // namespace strata
