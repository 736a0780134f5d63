#pragma once

#include <array>
#include <cstdint>

#include "bench/roofline.h"
#include "engine/kv_policy.h"
#include "model/model.h"
#include "numeric/kv_type.h"

namespace strata {

// What a piece of work cannot do without, however well it is done: bytes that must come from
// memory, and operations (a multiply and an add count as two).
struct Work {
  double read_bytes = 0;
  std::array<double, kTensorTypeCount> operations = {};  // by TensorType of the weights

  void add_product(TensorType weights, double count) {
    operations[static_cast<size_t>(weights)] += count;
  }
  Work& operator+=(const Work& other);
  // The time it takes at the machine's limits: memory and arithmetic at once, whichever is longer.
  double least_seconds(const MachineLimits& limits) const;
};

// One pass of the model over `rows` tokens of which `logit_rows` are brought to logits. Bytes are
// the file's: a packed form that is larger is our loss. A table that is only gathered from counts
// with the rows gathered. Attention and everything row-wise is left out, so what is reached is
// never flattered.
Work model_pass(const Model& model, int64_t rows, int64_t logit_rows);

// Bytes of keys and values that the query at `position` reads in all layers, windows and the policy
// considered.
double kv_read_bytes(const Model& model, KvType type, int64_t position,
                     const KvPolicy& policy = {});

}  // namespace strata
