#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "exec/weight_ref.h"
#include "tensor/tensor.h"

namespace strata {

// ---- What a model tells an executor -------------------------------------------------------------

struct Linear {
  WeightRef weight;  // [out, in]
  WeightRef bias;    // [1, out] or absent
};

enum class NormKind : uint8_t { rms, layer };

struct Norm {
  NormKind kind = NormKind::rms;
  double epsilon = 1e-5;
  double weight_offset =
      0;             // y = x_hat * (weight + offset): 1 where files store weight - 1 (Gemma)
  WeightRef weight;  // [1, D]; absent: no such norm in this model
  WeightRef bias;    // layer norm only

  explicit operator bool() const { return static_cast<bool>(weight); }
};

struct Embedding {
  WeightRef tokens;     // [V, D]
  WeightRef positions;  // [context, D] or absent (learned positions, GPT-2)
  double scale = 1;     // of the token row: sqrt(D) in Gemma
};

// Rotary positions. Pair i of a head turns by position * inverse_frequency[i]; cos and sin are
// multiplied by attention_factor (YaRN). Dimensions past 2 * size are left alone.
struct Rope {
  enum class Layout : uint8_t {
    halves,  // pair i is (x[i], x[i + size]): transformers, "neox"
    pairs,   // pair i is (x[2i], x[2i + 1]): GGUF llama, whose q and k rows are permuted for it
  };
  Layout layout = Layout::halves;
  std::vector<double> inverse_frequency;
  double attention_factor = 1;
};

struct AttentionConfig {
  int heads = 0;               // H
  int kv_heads = 0;            // Hk; H is a multiple of it
  int head_size = 0;           // Dh
  double scale = 1;            // of q . k
  int window = 0;              // a query sees keys with position > its own - window; 0: all
  int layer_group = 0;         // layers with the same window share page tables
  const Rope* rope = nullptr;  // nullptr: no rotary positions
};

struct AttentionWeights {
  Linear q;     // [H * Dh, D]
  Linear k;     // [Hk * Dh, D]
  Linear v;     // [Hk * Dh, D]
  Norm q_norm;  // over each head, or absent
  Norm k_norm;
};

enum class Activation : uint8_t { silu, gelu_tanh, gelu_erf, relu };

struct MlpWeights {
  Linear gate;  // [F, D]; absent: y = down(act(up(x))), else down(act(gate(x)) * up(x))
  Linear up;    // [F, D]
  Linear down;  // [D, F]
};

// ---- What runs through it -----------------------------------------------------------------------

// Consecutive rows of a batch that belong to one sequence, at consecutive positions.
struct SequenceRows {
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t first_position = 0;
  // The executor's handle of this sequence's cache; -1: the rows are the whole sequence so far
  // (first_position == 0). Only `attend` looks at it.
  int32_t cache = -1;
};

// N tokens of several sequences in one forward pass. Spans are the caller's and outlive the pass.
struct Batch {
  std::span<const int32_t> tokens;     // [N]
  std::span<const int32_t> positions;  // [N]
  std::span<const SequenceRows> sequences;
  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

struct Qkv {
  Tensor q;  // [N, H * Dh], after q_norm and rope
  Tensor k;  // [N, Hk * Dh], likewise
  Tensor v;  // [N, Hk * Dh]
};

// One step in the reading of a model. The forward pass (model/block.cpp, model/transformer.cpp) is
// written once over these operations; an executor gives them meaning: numbers (RefExec, ServeExec),
// gradients (TapeExec), sizes (PlanExec). Tensors live until the next begin(). Shapes were checked
// when the model was loaded. A row's result does not depend on the other rows of the batch.
class Exec {
 public:
  virtual ~Exec() = default;

  // Starts a pass; earlier tensors become invalid. The batch outlives the pass.
  virtual void begin(const Batch& batch) = 0;

  // [N, D]: token rows * scale + position rows.
  virtual Tensor embed(const Embedding& w, const Batch& batch) = 0;
  // Each row of x [N, n * in], in groups of w.weight.in columns (n > 1: a norm over each head).
  virtual Tensor norm(const Tensor& x, const Norm& w) = 0;
  // x: [N, D]. Composed of linear, norm and rope unless an executor fuses them.
  virtual Qkv qkv(const Tensor& x, const AttentionWeights& w, const AttentionConfig& c,
                  const Batch& batch);
  // Causal attention of the batch's rows over their sequences: [N, H * Dh]. Scores are
  // scale * q . k; a key takes part when position_q - window < position_k <= position_q.
  virtual Tensor attend(const Qkv& qkv, const AttentionConfig& c, int layer,
                        const Batch& batch) = 0;
  // x [N, in] -> [N, out]. Every projection of the model passes here (or through a fused twin).
  virtual Tensor linear(const Tensor& x, const Linear& w) = 0;
  // x [N, D] -> [N, D]. Composed of linear, act and act_mul unless an executor fuses them.
  virtual Tensor mlp(const Tensor& x, const MlpWeights& w, Activation activation);
  virtual Tensor add(const Tensor& a, const Tensor& b) = 0;
  // The named rows of x, in that order.
  virtual Tensor take_rows(const Tensor& x, std::span<const int32_t> rows) = 0;
  // x [M, D] -> [M, V]; callers bound M, as V can be 262,144.
  virtual Tensor logits(const Tensor& x, const Linear& head) = 0;

  // Called by the forward pass after each step with a stable name ("attn_out") and the layer (-1:
  // outside the blocks), for dumps and comparisons with outside programs.
  virtual void observe(std::string_view /*name*/, int /*layer*/, const Tensor& /*t*/) {}

 protected:
  // Turns each head of x [N, heads * head_size] by the batch's positions.
  virtual Tensor rope(const Tensor& x, int heads, int head_size, const Rope& rope,
                      const Batch& batch) = 0;
  virtual Tensor act(const Tensor& x, Activation activation) = 0;
  // act(gate) * up.
  virtual Tensor act_mul(const Tensor& gate, const Tensor& up, Activation activation) = 0;
};

}  // namespace strata
