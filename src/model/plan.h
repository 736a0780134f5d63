#pragma once

#include <cstdint>
#include <vector>

#include "model/model.h"

namespace strata {

struct PlanOptions {
  int64_t context = 0;            // tokens of one sequence; 0: the model's
  int64_t batch_rows = 512;       // rows of the largest pass
  int64_t logit_rows = 1;         // rows of that pass whose logits are asked for
  double kv_bytes_per_value = 2;  // f16; q8 in groups of 32: 34 / 32
};

struct KvGroupPlan {
  int window = 0;  // 0: all positions
  int layers = 0;
  int64_t bytes_per_token = 0;  // keys and values of all layers of the group
  int64_t tokens = 0;           // kept at most for one sequence: min(context, window)
};

// What a model takes and costs, computed without reading a weight.
struct MemoryPlan {
  int64_t parameters = 0;
  int64_t weight_bytes = 0;  // as stored, every tensor once
  // Read for each generated token: all weights but a table that is only gathered from, of which one
  // row is.
  int64_t weight_bytes_per_token = 0;
  std::vector<KvGroupPlan> kv_groups;
  int64_t kv_bytes_per_token = 0;  // while no window is full
  int64_t kv_bytes = 0;            // of one sequence of `context` tokens
  int64_t context = 0;
  // Of one token: matrix products with weights, and attention to one key in every layer.
  int64_t linear_flops_per_token = 0;
  int64_t attention_flops_per_key = 0;
  int64_t activation_peak_bytes = 0;  // f32, of a pass of batch_rows (exec/plan_exec.h)
};

MemoryPlan plan_memory(const Model& model, const PlanOptions& options = {});

}  // namespace strata
