// Attention for training, scalar: contract in train_attention.h, bodies in train_attention*.inl.h.
#include "kernels/isa_tables.h"
#include "kernels/simd/vec_scalar.h"
// The bodies need the Vec above them.
#include "kernels/train_attention_backward.inl.h"

namespace strata {

constinit const TrainAttentionKernels kTrainAttentionTableScalar = kTable;

}  // namespace strata
