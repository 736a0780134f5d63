#include "model/block.h"

namespace strata {

Tensor block_forward(Exec& ex, const BlockWeights& w, const BlockConfig& c, int layer,
                     const Batch& batch, Tensor x, std::optional<std::span<const int32_t>> wanted) {
  Tensor h = ex.norm(x, w.attn_norm);
  ex.observe("attn_norm", layer, h);
  const Qkv qkv = ex.qkv(h, w.attn, c.attention, batch);
  ex.observe("attn_q", layer, qkv.q);
  ex.observe("attn_k", layer, qkv.k);
  ex.observe("attn_v", layer, qkv.v);
  h = ex.attend(qkv, c.attention, layer, batch);
  ex.observe("attn_heads", layer, h);
  if (wanted) {
    h = ex.take_rows(h, *wanted);
    x = ex.take_rows(x, *wanted);
  }
  h = ex.linear(h, w.attn_output);
  ex.observe("attn_out", layer, h);
  if (w.attn_post_norm) h = ex.norm(h, w.attn_post_norm);
  x = ex.add(x, h);
  ex.observe("attn_residual", layer, x);

  h = ex.norm(x, w.mlp_norm);
  ex.observe("mlp_norm", layer, h);
  h = ex.mlp(h, w.mlp, c.activation);
  ex.observe("mlp_out", layer, h);
  if (w.mlp_post_norm) h = ex.norm(h, w.mlp_post_norm);
  x = ex.add(x, h);
  ex.observe("block_out", layer, x);
  return x;
}

}  // namespace strata
