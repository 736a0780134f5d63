#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/cpu.h"
#include "base/thread_pool.h"
#include "engine/key_statistics.h"
#include "engine/kv_policy.h"
#include "engine/kv_pool.h"
#include "engine/prepared_weights.h"
#include "engine/rotary_key_bias.h"
#include "exec/exec.h"
#include "exec/rope_table.h"
#include "model/model.h"
#include "numeric/activations.h"
#include "numeric/kv_type.h"
#include "ops/linear.h"
#include "ops/paged_attention.h"
#include "ops/quantize_rows.h"
#include "tensor/arena.h"

namespace strata {

struct ServeExecOptions {
  int threads = 0;  // 0: usable_threads()
  KvType kv_type = KvType::f16;
  int page_tokens = kDefaultPageTokens;  // one of kPageSizes
  KvPolicy kv_policy = {};               // of every sequence
  Activations activations = Activations::int8;
  uint64_t kv_memory = 0;  // bytes; 0: default_kv_memory()
  int64_t context = 0;     // longest sequence; 0: the model's, and never more, except with sinks
  int64_t max_sequences = 64;                         // that windowed groups keep pages for
  int64_t step_rows = 512;                            // most rows of one sequence in a pass
  std::optional<int32_t> first_token = std::nullopt;  // of all texts, where they have one (BOS)
  std::function<void(double)> progress = nullptr;     // share of the weights packed; may be empty
};

// What a model keeps per token, and which of its layers forget alike. Throws invalid_argument for a
// page size that is none of kPageSizes.
KvShape kv_shape(const Model& model, KvType type, const KvPolicy& policy = {},
                 int page_tokens = kDefaultPageTokens);

// Throws for a policy that makes no sense with the model (sinks under learned positions, or more
// positions than it was made for) or with the type (sinks in one that quantises).
void check_kv_policy(const Model& model, KvType type, const KvPolicy& policy);

// The longest sequence when `asked` tokens are asked for; 0: none.
int64_t wanted_context(const Model& model, int64_t asked, const KvPolicy& policy);

// A quarter of the memory that is available now, at most 4 GiB.
uint64_t default_kv_memory();

// Serves a model: packed weights, int8 activations where weights are quantised, f32 elsewhere, and
// keys and values in a paged cache that only `attend` touches.
//
// Row results depend, bit for bit, on the row and its sequence alone (at one ISA level, KV type and
// kind of activations): not on other rows, threads, the cut of a prompt into passes, nor the size
// and the place of pages.
//
// Lives of tensors are shorter than Exec promises at large: `add` ends those made before its own
// operands (a block needs nothing older), and logits live until the next logits() or begin(). So
// memory is two halves of a block, however deep the model. A pass of a shape seen before allocates
// nothing.
//
// One thread at a time.
class ServeExec : public Exec {
 public:
  // The model outlives the executor, which does not read its file again.
  ServeExec(const Model& model, const ServeExecOptions& options);

  // ---- Caches: SequenceRows::cache names one. ----
  int32_t create_cache(const KvPolicy& policy = {}) { return kv_.create(0, policy); }
  // Promises room for `tokens` positions in all; false: not now, and nothing changes. Passes need
  // no reservation, but begin() fails when pages run out, never within a reservation.
  [[nodiscard]] bool reserve(int32_t cache, int64_t tokens) { return kv_.reserve(cache, tokens); }
  void release(int32_t cache) { kv_.release(cache); }
  int64_t cache_length(int32_t cache) const { return kv_.length(cache); }
  const KvPool& kv() const { return kv_; }
  KvPool& kv() { return kv_; }  // between passes

  // Longest sequence: the option or the model's, and no more than fits the pool alone.
  int64_t context_length() const { return context_; }
  IsaLevel isa() const { return kernels_->level; }
  ThreadPool& pool() { return pool_; }
  const PreparedWeights& weights() const { return weights_; }

  // ---- Exec ----
  // Appends the batch's positions to its caches. A sequence with cache -1 gets one for this pass.
  // Throws invalid_argument for a batch that does not fit its caches, resource_exhausted without
  // pages; after a throw release the batch's caches.
  void begin(const Batch& batch) override;
  Tensor embed(const Embedding& w, const Batch& batch) override;
  Tensor norm(const Tensor& x, const Norm& w) override;
  Qkv qkv(const Tensor& x, const AttentionWeights& w, const AttentionConfig& c,
          const Batch& batch) override;
  Tensor attend(const Qkv& qkv, const AttentionConfig& c, int layer, const Batch& batch) override;
  Tensor linear(const Tensor& x, const Linear& w) override;
  Tensor mlp(const Tensor& x, const MlpWeights& w, Activation activation) override;
  Tensor add(const Tensor& a, const Tensor& b) override;
  Tensor take_rows(const Tensor& x, std::span<const int32_t> rows) override;
  Tensor logits(const Tensor& x, const Linear& head) override;

 protected:
  Tensor rope(const Tensor& x, int heads, int head_size, const Rope& rope,
              const Batch& batch) override;
  Tensor act(const Tensor& x, Activation activation) override;
  Tensor act_mul(const Tensor& gate, const Tensor& up, Activation activation) override;

 private:
  OpContext context() { return {kernels_, &pool_}; }
  Arena& arena() { return arenas_[current_arena_]; }
  Tensor tensor(int64_t rows, int64_t columns);
  QuantizedRows& quantised_twin(const Tensor& t);
  bool fuse_quantise(int64_t columns) const;
  LinearInput input(const Tensor& x, bool quantised);
  // A table of angles, and those of the pass's rows that lie beyond it.
  struct Angles {
    RopeTable table;
    std::vector<float> beyond = {};  // [rows, stride]
  };
  const Angles& angles(const Rope& rope) const;
  // Turns a head of the row, which is at `position`.
  void turn_head(const Angles& angles, int64_t row, int64_t position, float* head) const;
  void turn_head(const RopeTable& table, const float* row_angles, float* head) const;
  void fill_angles(const Batch& batch);
  RopeTable& rope_table(const Rope& rope);
  void norm_row(const Norm& w, const float* weight, const float* bias, const float* x, int64_t n,
                float* y) const;
  // fn(first, last) over rows; on all threads when there is enough work.
  template <typename Fn>
  void for_rows(int64_t rows, int64_t elements, Fn fn);
  void open_caches(const Batch& batch);
  void prepare_quantised_keys(const Model& model, std::optional<int32_t> first_token);
  void measure_keys(const Model& model, std::optional<int32_t> first_token);

  const KernelTable* kernels_;
  ThreadPool pool_;
  PreparedWeights weights_;
  KvPool kv_;
  int64_t context_;
  Activations activations_;
  std::vector<Angles> ropes_;
  std::vector<int> layer_in_group_;  // by layer
  // How a layer's keys are stored in KV types that quantise.
  struct QuantisedKeys {
    std::unique_ptr<RotaryKeyBias> bias = nullptr;  // the projection's, or in q4 the keys' mean
    std::vector<float> mean = {}, first_mean = {};  // what it refers to, in q4
    std::vector<float> scales = {};                 // in q4: PagedAttention::key_scales
  };
  std::vector<QuantisedKeys> quantised_keys_;                  // by layer
  std::vector<std::unique_ptr<KeyStatistics>> measured_keys_;  // by layer, while they are measured

  Arena arenas_[2];
  int current_arena_ = 0;
  Arena logits_arena_;
  struct Twins {
    QuantizedRows quantized, residual;
  };
  std::vector<Twins> twins_;  // by Tensor::id
  std::vector<int32_t> temporary_caches_;
  std::vector<std::vector<PagedRows>> paged_rows_;  // by group, of this pass
  // By group and row of this pass: from which position the row reads sinks that its window has left
  // behind; -1: it does not. Empty where no row of the group does.
  std::vector<std::vector<int32_t>> sink_positions_;
  Tensor sink_q_;  // of the layer at hand: PagedAttention::sink_q
  PagedAttentionWorkspace attention_workspace_;
};

}  // namespace strata
