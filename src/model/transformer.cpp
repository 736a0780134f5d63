#include "model/transformer.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace strata {

namespace {

Tensor forward_blocks(Exec& ex, const Transformer& model, const Batch& batch,
                      std::optional<std::span<const int32_t>> wanted) {
  ex.begin(batch);
  Tensor x = ex.embed(model.embedding, batch);
  ex.observe("embedding", -1, x);
  for (size_t layer = 0; layer < model.blocks.size(); ++layer)
    x = block_forward(ex, model.blocks[layer], model.block_configs[layer], static_cast<int>(layer),
                      batch, x, layer + 1 == model.blocks.size() ? wanted : std::nullopt);
  return x;
}

}  // namespace

Tensor forward_hidden(Exec& ex, const Transformer& model, const Batch& batch) {
  return forward_blocks(ex, model, batch, std::nullopt);
}

Tensor forward_hidden(Exec& ex, const Transformer& model, const Batch& batch,
                      std::span<const int32_t> rows) {
  const bool all =
      static_cast<int64_t>(rows.size()) == batch.size() &&
      std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end();
  if (all) return forward_blocks(ex, model, batch, std::nullopt);  // each once, in order
  return forward_blocks(ex, model, batch, rows);
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
