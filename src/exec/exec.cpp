#include "exec/exec.h"

namespace strata {

Qkv Exec::qkv(const Tensor& x, const AttentionWeights& w, const AttentionConfig& c,
              const Batch& batch) {
  Qkv out{linear(x, w.q), linear(x, w.k), linear(x, w.v)};
  if (w.q_norm) out.q = norm(out.q, w.q_norm);
  if (w.k_norm) out.k = norm(out.k, w.k_norm);
  if (c.rope != nullptr) {
    out.q = rope(out.q, c.heads, c.head_size, *c.rope, batch);
    out.k = rope(out.k, c.kv_heads, c.head_size, *c.rope, batch);
  }
  return out;
}

Tensor Exec::mlp(const Tensor& x, const MlpWeights& w, Activation activation) {
  const Tensor up = linear(x, w.up);
  const Tensor hidden =
      w.gate.weight ? act_mul(linear(x, w.gate), up, activation) : act(up, activation);
  return linear(hidden, w.down);
}

}  // namespace strata
