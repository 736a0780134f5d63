#include "model/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "exec/plan_exec.h"

namespace strata {
namespace {

// Runs a pass of one sequence of `rows` tokens, the last `logit_rows` of them to logits.
void plan_pass(PlanExec& exec, const Model& model, int64_t rows, int64_t logit_rows) {
  const std::vector<int32_t> tokens(static_cast<size_t>(rows), 0);
  std::vector<int32_t> positions(static_cast<size_t>(rows));
  std::iota(positions.begin(), positions.end(), 0);
  const SequenceRows sequence{0, static_cast<int32_t>(rows), 0, -1};
  const Batch batch{tokens, positions, {&sequence, 1}};
  const Tensor hidden = forward_hidden(exec, model.transformer, batch);
  forward_logits(exec, model.transformer, hidden,
                 std::span(positions).last(static_cast<size_t>(logit_rows)));
}

}  // namespace

MemoryPlan plan_memory(const Model& model, const PlanOptions& options) {
  MemoryPlan plan;
  plan.parameters = model.parameter_count;
  plan.context = options.context > 0 ? options.context : model.config.context_length;

  // Slices of a fused tensor overlap in the file where it is stored transposed: count elements.
  const auto stored_bytes = [](const WeightRef& w) {
    const TensorTypeInfo& type = tensor_type_info(w.type);
    return w.out * w.in / type.block_elements * type.block_bytes;
  };
  for (const WeightRef& w : model.weights) plan.weight_bytes += stored_bytes(w);
  plan.weight_bytes_per_token = plan.weight_bytes;
  for (const WeightRef* table :
       {&model.transformer.embedding.tokens, &model.transformer.embedding.positions}) {
    if (!*table || table->id == model.transformer.head.weight.id) continue;
    plan.weight_bytes_per_token -= stored_bytes(*table) - stored_bytes(*table) / table->out;
  }

  for (const LayerGroup& group : model.layer_groups) {
    KvGroupPlan g;
    g.window = group.window;
    g.layers = static_cast<int>(group.layers.size());
    for (int layer : group.layers) {
      const AttentionConfig& a =
          model.transformer.block_configs[static_cast<size_t>(layer)].attention;
      const double values = 2.0 * a.kv_heads * a.head_size;
      g.bytes_per_token += static_cast<int64_t>(std::ceil(values * options.kv_bytes_per_value));
    }
    g.tokens = g.window > 0 ? std::min<int64_t>(plan.context, g.window) : plan.context;
    plan.kv_bytes_per_token += g.bytes_per_token;
    plan.kv_bytes += g.bytes_per_token * g.tokens;
    plan.kv_groups.push_back(g);
  }

  PlanExec exec;
  plan_pass(exec, model, 1, 1);
  plan.linear_flops_per_token = exec.linear_flops();
  plan.attention_flops_per_key = exec.attention_flops();  // position 0 sees one key
  plan_pass(exec, model, options.batch_rows, std::min(options.logit_rows, options.batch_rows));
  plan.activation_peak_bytes = exec.activation_peak_bytes();
  return plan;
}

}  // namespace strata
