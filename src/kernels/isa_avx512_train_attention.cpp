// Attention for training, avx512: contract in train_attention.h, bodies in train_attention*.inl.h.
#include "kernels/isa_tables.h"
#include "kernels/simd/vec_avx512.h"
// The bodies need the Vec above them.
#include "kernels/train_attention_backward.inl.h"

namespace strata {

constinit const TrainAttentionKernels kTrainAttentionTableAvx512 = kTable;

}  // namespace strata
