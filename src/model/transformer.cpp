#include "model/transformer.h"

namespace strata {

Tensor forward_hidden(Exec& ex, const Transformer& model, const Batch& batch) {
  ex.begin(batch);
  Tensor x = ex.embed(model.embedding, batch);
  ex.observe("embedding", -1, x);
  for (size_t layer = 0; layer < model.blocks.size(); ++layer)
    x = block_forward(ex, model.blocks[layer], model.block_configs[layer], static_cast<int>(layer),
                      batch, x);
  return x;
}

Tensor forward_logits(Exec& ex, const Transformer& model, const Tensor& hidden,
                      std::span<const int32_t> rows) {
  Tensor x = ex.take_rows(hidden, rows);
  x = ex.norm(x, model.output_norm);
  ex.observe("output_norm", -1, x);
  x = ex.logits(x, model.head);
  ex.observe("logits", -1, x);
  return x;
}

}  // namespace strata
