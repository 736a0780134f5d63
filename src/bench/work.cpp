#include "bench/work.h"

#include <algorithm>

#include "engine/serve_exec.h"

namespace strata {
namespace {

double stored_bytes(const WeightRef& w) {
  const TensorTypeInfo& type = tensor_type_info(w.type);
  const int64_t blocks = w.out * (w.in / type.block_elements);
  return static_cast<double>(blocks * type.block_bytes);
}

}  // namespace

Work& Work::operator+=(const Work& other) {
  read_bytes += other.read_bytes;
  for (size_t i = 0; i < operations.size(); ++i) operations[i] += other.operations[i];
  return *this;
}

double Work::least_seconds(const MachineLimits& limits) const {
  double arithmetic = 0;
  for (size_t i = 0; i < operations.size(); ++i)
    if (operations[i] > 0)
      arithmetic += operations[i] / (1e9 * limits.product_gop_s(static_cast<TensorType>(i)));
  return std::max(read_bytes / (1e9 * limits.read_gb_s), arithmetic);
}

Work model_pass(const Model& model, int64_t rows, int64_t logit_rows) {
  Work work;
  const auto product = [&](const Linear& linear, int64_t times) {
    const WeightRef& w = linear.weight;
    if (!w || times == 0) return;
    work.read_bytes += stored_bytes(w);
    work.add_product(w.type, 2.0 * static_cast<double>(times) * static_cast<double>(w.out) *
                                 static_cast<double>(w.in));
  };
  const Transformer& t = model.transformer;
  for (const BlockWeights& b : t.blocks)
    for (const Linear* l :
         {&b.attn.q, &b.attn.k, &b.attn.v, &b.attn_output, &b.mlp.gate, &b.mlp.up, &b.mlp.down})
      product(*l, rows);
  product(t.head, logit_rows);
  for (const WeightRef* table : {&t.embedding.tokens, &t.embedding.positions})
    if (*table)
      work.read_bytes +=
          stored_bytes(*table) / static_cast<double>(table->out) * static_cast<double>(rows);
  return work;
}

double kv_read_bytes(const Model& model, KvType type, int64_t position, const KvPolicy& policy) {
  const KvShape shape = kv_shape(model, type, policy);
  const double token_bytes = static_cast<double>(shape.layer_page_bytes()) / shape.page_tokens;
  double bytes = 0;
  for (const KvShape::Group& g : shape.groups) {
    const int64_t seen = g.window > 0 ? std::min(position + 1, g.window + g.sinks) : position + 1;
    bytes += token_bytes * g.layers * static_cast<double>(seen);
  }
  return bytes;
}

}  // namespace strata
