#include "engine/serve_exec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/memory_budget.h"
#include "model/transformer.h"

namespace strata {
namespace {

// Elements of row-wise work that are done before another thread has woken up.
constexpr int64_t kSerialElements = 16'384;

KvPool make_pool(const Model& model, const ServeExecOptions& options) {
  check_kv_policy(model, options.kv_type, options.kv_policy);
  const KvShape shape = kv_shape(model, options.kv_type, options.kv_policy, options.page_tokens);
  const uint64_t bytes = options.kv_memory > 0 ? options.kv_memory : default_kv_memory();
  const int64_t context = wanted_context(model, options.context, options.kv_policy);
  return KvPool(shape,
                plan_kv_pages(shape, bytes, context, options.max_sequences, options.step_rows),
                options.step_rows);
}

const RowKernels::Activations& activation_kernels(const RowKernels& rows, Activation activation) {
  switch (activation) {
    case Activation::silu:
      return rows.silu;
    case Activation::gelu_tanh:
      return rows.gelu_tanh;
    case Activation::gelu_erf:
      return rows.gelu_erf;
    case Activation::relu:
      return rows.relu;
  }
  assertion_failed("known activation", __FILE__, __LINE__);
}

// A norm behind the projection leaves nothing of its bias.
bool has_key_bias(const AttentionWeights& w) { return w.k.bias && !w.k_norm; }

}  // namespace

KvShape kv_shape(const Model& model, KvType type, const KvPolicy& policy, int page_tokens) {
  const std::vector<BlockConfig>& configs = model.transformer.block_configs;
  STRATA_ASSERT(!configs.empty());
  if (!is_page_size(page_tokens))
    fail(ErrorCode::invalid_argument,
         "--page-size: got {} tokens, wanted one of {}; without it pages hold {}", page_tokens,
         fmt::join(kPageSizes, ", "), kDefaultPageTokens);
  KvShape shape;
  shape.kv_heads = configs[0].attention.kv_heads;
  shape.head_size = configs[0].attention.head_size;
  shape.type = type;
  shape.page_tokens = page_tokens;
  for (const BlockConfig& c : configs)
    if (c.attention.kv_heads != shape.kv_heads || c.attention.head_size != shape.head_size)
      fail(ErrorCode::unsupported,
           "serve: layers with different key shapes ({} heads of {}, {} heads of {})",
           shape.kv_heads, shape.head_size, c.attention.kv_heads, c.attention.head_size);
  for (const LayerGroup& g : model.layer_groups) {
    KvShape::Group group{g.window, static_cast<int>(g.layers.size())};
    const KvPolicy span = group.narrowed(policy);
    group.window = span.window;
    group.sinks = span.sinks;
    shape.groups.push_back(group);
  }
  return shape;
}

void check_kv_policy(const Model& model, KvType type, const KvPolicy& policy) {
  if (policy.sinks == 0) return;
  if (is_quantized(type))
    fail(ErrorCode::unsupported, "KV policy {}: not with --kv-type {}; use f16 or bf16",
         kv_policy_name(policy), kv_type_name(type));
  if (model.transformer.embedding.positions)
    fail(ErrorCode::unsupported,
         "KV policy {}: {} adds learned positions to its input, which cannot move with a window",
         kv_policy_name(policy), model.config.architecture);
  if (policy.sinks + policy.window > model.config.context_length)
    fail(ErrorCode::invalid_argument,
         "KV policy {}: {} positions, the model was made for {}; make the window smaller",
         kv_policy_name(policy), policy.sinks + policy.window, model.config.context_length);
}

int64_t wanted_context(const Model& model, int64_t asked, const KvPolicy& policy) {
  const int64_t own = model.config.context_length;
  if (asked == 0) return own;
  // With sinks the model never sees a position beyond its own; 32-bit ones number the text.
  constexpr int64_t kMost = int64_t{1} << 30;
  return std::min(asked, policy.sinks > 0 ? std::max(own, kMost) : own);
}

uint64_t default_kv_memory() {
  constexpr uint64_t kMost = uint64_t{4} << 30;
  return std::min(kMost, available_memory() / 4);
}

ServeExec::ServeExec(const Model& model, const ServeExecOptions& options)
    : kernels_(&kernel_table(isa_level())),
      pool_(options.threads > 0 ? options.threads : usable_threads()),
      weights_(model, pool_, options.progress),
      kv_(make_pool(model, options)),
      context_(std::min(wanted_context(model, options.context, options.kv_policy),
                        kv_.longest_sequence())),
      activations_(options.activations) {
  layer_in_group_.resize(model.transformer.blocks.size());
  for (const LayerGroup& g : model.layer_groups)
    for (size_t i = 0; i < g.layers.size(); ++i)
      layer_in_group_[static_cast<size_t>(g.layers[i])] = static_cast<int>(i);
  for (const BlockConfig& c : model.transformer.block_configs) {
    const Rope* rope = c.attention.rope;
    const bool known = std::any_of(ropes_.begin(), ropes_.end(),
                                   [&](const Angles& a) { return a.table.rope() == rope; });
    if (rope != nullptr && !known)
      ropes_.push_back({RopeTable(*rope, std::min(context_, model.config.context_length))});
  }
  sink_positions_.resize(model.layer_groups.size());
  paged_rows_.resize(model.layer_groups.size());
  prepare_quantised_keys(model, options.first_token);
}

void ServeExec::prepare_quantised_keys(const Model& model, std::optional<int32_t> first_token) {
  const std::vector<BlockWeights>& blocks = model.transformer.blocks;
  quantised_keys_.resize(blocks.size());
  if (!is_quantized(kv_.shape().type)) return;
  if (kv_.shape().head_size > kMaxQuantizedHead)
    fail(ErrorCode::unsupported, "--kv-type {}: heads of {}, it takes up to {}; use f16",
         kv_type_name(kv_.shape().type), kv_.shape().head_size, kMaxQuantizedHead);
  const bool measured = kv_.shape().type == KvType::q4;
  if (measured) measure_keys(model, first_token);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const AttentionWeights& w = blocks[i].attn;
    const AttentionConfig& c = model.transformer.block_configs[i].attention;
    QuantisedKeys& keys = quantised_keys_[i];
    const float* bias = measured          ? keys.mean.data()
                        : has_key_bias(w) ? weights_.vector(w.k.bias)
                                          : nullptr;
    if (bias == nullptr) continue;
    keys.bias =
        std::make_unique<RotaryKeyBias>(bias, measured ? keys.first_mean.data() : nullptr, c,
                                        c.rope != nullptr ? &rope_table(*c.rope) : nullptr);
  }
}

void ServeExec::measure_keys(const Model& model, std::optional<int32_t> first_token) {
  // Any tokens do, and short texts of them (SmolLM2's perplexity: docs/results/kernels.md); the
  // same ones always, whatever the context and the pool, for pages kept in files to stay valid.
  constexpr int64_t kTexts = 16, kLength = 16;
  for (const BlockConfig& block : model.transformer.block_configs) {
    const AttentionConfig& c = block.attention;
    measured_keys_.push_back(
        std::make_unique<KeyStatistics>(c, c.rope != nullptr ? &rope_table(*c.rope) : nullptr));
  }
  const auto vocabulary =
      static_cast<uint32_t>(weights_.matrix(model.transformer.embedding.tokens).out());
  std::vector<int32_t> tokens(static_cast<size_t>(std::min(kLength, context_)));
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::mt19937 random;
  for (int64_t text = 0; text < kTexts; ++text) {
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocabulary);
    tokens[0] = first_token.value_or(tokens[0]);
    const SequenceRows rows{.rows = static_cast<int32_t>(tokens.size()), .cache = kv_.create()};
    forward_hidden(*this, model.transformer, {tokens, positions, {&rows, 1}});
    kv_.release(rows.cache);
  }
  for (size_t i = 0; i < measured_keys_.size(); ++i) {
    quantised_keys_[i].mean = measured_keys_[i]->mean();
    quantised_keys_[i].first_mean = measured_keys_[i]->first_mean();
    quantised_keys_[i].scales = measured_keys_[i]->scales();
  }
  measured_keys_.clear();
}

// ---- a pass ----

void ServeExec::begin(const Batch& batch) {
  for (Arena& a : arenas_) a.reset();
  logits_arena_.reset();
  twins_.clear();
  for (const int32_t cache : temporary_caches_) kv_.release(cache);
  temporary_caches_.clear();
  open_caches(batch);
  fill_angles(batch);
}

void ServeExec::fill_angles(const Batch& batch) {
  int64_t last = -1;
  for (const int32_t position : batch.positions) last = std::max<int64_t>(last, position);
  for (Angles& angles : ropes_) {
    RopeTable& table = angles.table;
    table.fill_to(std::min(last, table.context() - 1));
    if (last < table.context()) continue;
    angles.beyond.resize(static_cast<size_t>(batch.size() * table.stride()));
    for (int64_t r = 0; r < batch.size(); ++r) {
      const int64_t position = batch.positions[static_cast<size_t>(r)];
      if (position >= table.context())
        table.compute(position, angles.beyond.data() + r * table.stride());
    }
  }
}

void ServeExec::open_caches(const Batch& batch) {
  for (std::vector<PagedRows>& rows : paged_rows_) rows.clear();
  for (std::vector<int32_t>& positions : sink_positions_) positions.clear();
  int64_t next_row = 0;
  for (const SequenceRows& s : batch.sequences) {
    if (s.first_row != next_row || s.rows <= 0)
      fail(ErrorCode::invalid_argument,
           "serve: a sequence's rows start at {} and are {}; rows before it end at {}", s.first_row,
           s.rows, next_row);
    next_row += s.rows;
    int32_t cache = s.cache;
    if (cache < 0) {
      cache = kv_.create();
      temporary_caches_.push_back(cache);
    }
    if (!kv_.is_open(cache) || kv_.length(cache) != s.first_position)
      fail(ErrorCode::invalid_argument,
           "serve: rows at position {} for cache {}, which holds {} positions", s.first_position,
           cache, kv_.is_open(cache) ? kv_.length(cache) : -1);
    if (s.first_position + int64_t{s.rows} > context_)
      fail(ErrorCode::invalid_argument, "serve: {} positions, the context is {} tokens",
           s.first_position + int64_t{s.rows}, context_);
    if (!kv_.append(cache, s.rows))
      fail(ErrorCode::resource_exhausted,
           "serve: the KV cache has no page left for {} tokens more ({} of {} pages are in use)",
           s.rows, kv_.used_pages(), kv_.total_pages());
    for (size_t g = 0; g < paged_rows_.size(); ++g) {
      const KvPolicy& span = kv_.span(cache, g);
      paged_rows_[g].push_back({s.first_row, s.rows, s.first_position, kv_.page_table(cache, g),
                                span.window, span.sinks});
      // From here on the window has left sinks behind.
      const int64_t full = span.sinks + span.window;
      if (span.sinks == 0 || s.first_position + s.rows <= full) continue;
      sink_positions_[g].resize(static_cast<size_t>(batch.size()), -1);
      for (int64_t r = std::max<int64_t>(0, full - s.first_position); r < s.rows; ++r)
        sink_positions_[g][static_cast<size_t>(s.first_row + r)] = static_cast<int32_t>(full - 1);
    }
  }
  if (next_row != batch.size() || batch.positions.size() != batch.tokens.size())
    fail(ErrorCode::invalid_argument, "serve: {} tokens, {} positions, sequences of {} rows",
         batch.size(), batch.positions.size(), next_row);
}

Tensor ServeExec::tensor(int64_t rows, int64_t columns) {
  Tensor t = arena().tensor(DType::f32, rows, columns);
  t.id = static_cast<int32_t>(twins_.size());
  twins_.emplace_back();
  return t;
}

template <typename Fn>
void ServeExec::for_rows(int64_t rows, int64_t elements, Fn fn) {
  if (rows * elements <= kSerialElements)
    fn(int64_t{0}, rows);
  else
    pool_.parallel_for(rows, 1, fn);
}

// ---- int8 twins ----

QuantizedRows& ServeExec::quantised_twin(const Tensor& t) {
  return twins_[static_cast<size_t>(t.id)].quantized;
}

// Whether an op should quantise the rows it has just made: some product will most likely want them.
bool ServeExec::fuse_quantise(int64_t columns) const {
  return weights_.quantised() && columns % ActivationBlock::kElements == 0;
}

LinearInput ServeExec::input(const Tensor& x, bool quantised) {
  LinearInput in{x, {}, {}};
  if (quantised) {
    Twins& twins = twins_[static_cast<size_t>(x.id)];
    if (!twins.quantized) twins.quantized = quantize_rows(x, arena(), context());
    if (activations_ == Activations::int8x2 && !twins.residual)
      twins.residual = quantize_residual(x, twins.quantized, arena(), context());
    in.quantized = twins.quantized;
    in.residual = twins.residual;
  }
  return in;
}

// ---- operations ----

Tensor ServeExec::embed(const Embedding& w, const Batch& batch) {
  const PackedMatrix& tokens = weights_.matrix(w.tokens);
  for (const int32_t token : batch.tokens)
    if (token < 0 || token >= tokens.out())
      fail(ErrorCode::invalid_argument, "embed: token {}, the vocabulary has {}", token,
           tokens.out());
  const PackedMatrix* positions = w.positions ? &weights_.matrix(w.positions) : nullptr;
  const int64_t width = tokens.in();
  const Tensor x = tensor(batch.size(), width);
  const Tensor learned = positions != nullptr ? tensor(batch.size(), width) : Tensor{};
  const auto scale = static_cast<float>(w.scale);
  for_rows(x.rows, 8 * width, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = x.row<float>(r);
      unpack_row(tokens, batch.tokens[static_cast<size_t>(r)], row);
      if (scale != 1) kernels_->rows->scale(row, scale, width, row);
      if (positions == nullptr) continue;
      unpack_row(*positions, batch.positions[static_cast<size_t>(r)], learned.row<float>(r));
      kernels_->rows->add(row, learned.row<float>(r), width, row);
    }
  });
  return x;
}

void ServeExec::norm_row(const Norm& w, const float* weight, const float* bias, const float* x,
                         int64_t n, float* y) const {
  const auto epsilon = static_cast<float>(w.epsilon);
  if (w.kind == NormKind::rms)
    kernels_->rows->rms_norm(x, weight, epsilon, n, y);
  else
    kernels_->rows->layer_norm(x, weight, bias, epsilon, n, y);
}

Tensor ServeExec::norm(const Tensor& x, const Norm& w) {
  const float* weight = weights_.vector(w.weight);
  const float* bias = weights_.vector(w.bias);
  const int64_t group = w.weight.in;
  const Tensor y = tensor(x.rows, x.columns);
  const bool quantise = fuse_quantise(x.columns);
  QuantizedRows twin;
  if (quantise) quantised_twin(y) = twin = allocate_quantized_rows(y.rows, y.columns, arena());
  for_rows(x.rows, 2 * x.columns, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < x.columns; c += group)
        norm_row(w, weight, bias, x.row<float>(r) + c, group, y.row<float>(r) + c);
      if (quantise)
        kernels_->matmul->quantize_row(y.row<float>(r), y.columns, twin.blocks + r * twin.stride);
    }
  });
  return y;
}

// Projections in one parallel call, then norm and rope of each head in place.
Qkv ServeExec::qkv(const Tensor& x, const AttentionWeights& w, const AttentionConfig& c,
                   const Batch& batch) {
  const PackedMatrix& wq = weights_.matrix(w.q.weight);
  const PackedMatrix& wk = weights_.matrix(w.k.weight);
  const PackedMatrix& wv = weights_.matrix(w.v.weight);
  const Qkv out{tensor(x.rows, wq.out()), tensor(x.rows, wk.out()), tensor(x.rows, wv.out())};
  const std::array<LinearPart, 3> parts = {{{&wq, weights_.vector(w.q.bias), out.q},
                                            {&wk, weights_.vector(w.k.bias), out.k},
                                            {&wv, weights_.vector(w.v.bias), out.v}}};
  strata::linear(parts, input(x, wq.quantised() || wk.quantised() || wv.quantised()), context());

  const Angles* turns = c.rope != nullptr ? &angles(*c.rope) : nullptr;
  const std::vector<int32_t>& sink_positions = sink_positions_[static_cast<size_t>(c.layer_group)];
  sink_q_ = {};
  if (turns != nullptr && !sink_positions.empty()) sink_q_ = tensor(x.rows, wq.out());
  if (!w.q_norm && !w.k_norm && turns == nullptr) return out;
  // twin: where a row that reads sinks is turned to their place, too; no data: nowhere.
  const auto finish_heads = [&](const Tensor& t, const Norm& norm, int64_t r, const Tensor& twin) {
    const float* weight = weights_.vector(norm.weight);
    const float* bias = weights_.vector(norm.bias);
    const int64_t position = batch.positions[static_cast<size_t>(r)];
    const int32_t from = twin.data == nullptr ? -1 : sink_positions[static_cast<size_t>(r)];
    for (int64_t at = 0; at < t.columns; at += c.head_size) {
      float* head = t.row<float>(r) + at;
      if (norm) norm_row(norm, weight, bias, head, c.head_size, head);
      if (from >= 0) {
        float* other = twin.row<float>(r) + at;
        std::copy_n(head, c.head_size, other);
        turn_head(*turns, r, from, other);
      }
      if (turns != nullptr) turn_head(*turns, r, position, head);
    }
  };
  for_rows(x.rows, 2 * (out.q.columns + out.k.columns), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      finish_heads(out.q, w.q_norm, r, sink_q_);
      finish_heads(out.k, w.k_norm, r, {});
    }
  });
  return out;
}

Tensor ServeExec::attend(const Qkv& qkv, const AttentionConfig& c, int layer, const Batch& batch) {
  if (!measured_keys_.empty())
    measured_keys_[static_cast<size_t>(layer)]->add(qkv.k, qkv.q, batch.positions);
  const auto group = static_cast<size_t>(c.layer_group);
  const Tensor y = tensor(qkv.q.rows, qkv.q.columns);
  const QuantisedKeys& keys = quantised_keys_[static_cast<size_t>(layer)];
  const PagedAttention attention{
      .type = kv_.shape().type,
      .page_tokens = kv_.shape().page_tokens,
      .base = kv_.layer_base(group, layer_in_group_[static_cast<size_t>(layer)]),
      .page_stride = kv_.shape().page_bytes(group),
      .heads = c.heads,
      .kv_heads = c.kv_heads,
      .head_size = c.head_size,
      .scale = static_cast<float>(c.scale),
      .window = c.window,
      .sink_q = sink_q_,
      .key_bias = keys.bias.get(),
      .key_scales = keys.scales,
      .sequences = paged_rows_[group]};
  paged_attention(attention, qkv.q, qkv.k, qkv.v, y, attention_workspace_, context());
  return y;
}

Tensor ServeExec::linear(const Tensor& x, const Linear& w) {
  const PackedMatrix& weight = weights_.matrix(w.weight);
  const Tensor y = tensor(x.rows, weight.out());
  strata::linear({&weight, weights_.vector(w.bias), y}, input(x, weight.quantised()), context());
  return y;
}

Tensor ServeExec::mlp(const Tensor& x, const MlpWeights& w, Activation activation) {
  if (!w.gate.weight) return Exec::mlp(x, w, activation);
  const PackedMatrix& gate = weights_.matrix(w.gate.weight);
  const PackedMatrix& up = weights_.matrix(w.up.weight);
  const Tensor g = tensor(x.rows, gate.out()), u = tensor(x.rows, up.out());
  const std::array<LinearPart, 2> parts = {
      {{&gate, weights_.vector(w.gate.bias), g}, {&up, weights_.vector(w.up.bias), u}}};
  strata::linear(parts, input(x, gate.quantised() || up.quantised()), context());
  return linear(act_mul(g, u, activation), w.down);
}

Tensor ServeExec::act_mul(const Tensor& gate, const Tensor& up, Activation activation) {
  const RowKernels::Activations& f = activation_kernels(*kernels_->rows, activation);
  const Tensor y = tensor(gate.rows, gate.columns);
  const bool quantise = fuse_quantise(y.columns);
  QuantizedRows twin;
  if (quantise) quantised_twin(y) = twin = allocate_quantized_rows(y.rows, y.columns, arena());
  for_rows(y.rows, 4 * y.columns, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      f.gated(gate.row<float>(r), up.row<float>(r), y.columns, y.row<float>(r));
      if (quantise)
        kernels_->matmul->quantize_row(y.row<float>(r), y.columns, twin.blocks + r * twin.stride);
    }
  });
  return y;
}

Tensor ServeExec::act(const Tensor& x, Activation activation) {
  const RowKernels::Activations& f = activation_kernels(*kernels_->rows, activation);
  const Tensor y = tensor(x.rows, x.columns);
  for_rows(y.rows, 4 * y.columns, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) f.plain(x.row<float>(r), y.columns, y.row<float>(r));
  });
  return y;
}

Tensor ServeExec::add(const Tensor& a, const Tensor& b) {
  // The sum is all a block keeps: it opens the other arena, whose tensors are dead by now, and the
  // operands die with the next add.
  current_arena_ ^= 1;
  arena().reset();
  const Tensor y = tensor(a.rows, a.columns);
  for_rows(y.rows, y.columns, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      kernels_->rows->add(a.row<float>(r), b.row<float>(r), y.columns, y.row<float>(r));
  });
  return y;
}

Tensor ServeExec::rope(const Tensor& x, int heads, int head_size, const Rope& rope,
                       const Batch& batch) {
  const Angles& turns = angles(rope);
  const Tensor y = tensor(x.rows, x.columns);
  for (int64_t r = 0; r < x.rows; ++r) {
    const int64_t position = batch.positions[static_cast<size_t>(r)];
    std::memcpy(y.row<float>(r), x.row<float>(r), static_cast<size_t>(x.columns) * sizeof(float));
    for (int64_t head = 0; head < heads; ++head)
      turn_head(turns, r, position, y.row<float>(r) + head * head_size);
  }
  return y;
}

void ServeExec::turn_head(const Angles& angles, int64_t row, int64_t position, float* head) const {
  const RopeTable& table = angles.table;
  turn_head(table,
            position < table.context() ? table.cosines(position)
                                       : angles.beyond.data() + row * table.stride(),
            head);
}

void ServeExec::turn_head(const RopeTable& table, const float* row_angles, float* head) const {
  const float* cosines = row_angles;
  const float* sines = row_angles + table.stride() / 2;
  if (table.rope()->layout == Rope::Layout::halves)
    kernels_->rows->rope_halves(head, cosines, sines, table.size(), head);
  else
    kernels_->rows->rope_pairs(head, cosines, sines, 2 * table.size(), head);
}

RopeTable& ServeExec::rope_table(const Rope& rope) {
  return const_cast<Angles&>(angles(rope)).table;
}

const ServeExec::Angles& ServeExec::angles(const Rope& rope) const {
  const auto it = std::find_if(ropes_.begin(), ropes_.end(),
                               [&](const Angles& a) { return a.table.rope() == &rope; });
  STRATA_ASSERT(it != ropes_.end());
  return *it;
}

Tensor ServeExec::take_rows(const Tensor& x, std::span<const int32_t> rows) {
  const Tensor y = tensor(static_cast<int64_t>(rows.size()), x.columns);
  for (size_t i = 0; i < rows.size(); ++i)
    std::memcpy(y.row<float>(static_cast<int64_t>(i)), x.row<float>(rows[i]),
                static_cast<size_t>(x.columns) * sizeof(float));
  return y;
}

Tensor ServeExec::logits(const Tensor& x, const Linear& head) {
  const PackedMatrix& weight = weights_.matrix(head.weight);
  logits_arena_.reset();
  const Tensor y = logits_arena_.tensor(DType::f32, x.rows, weight.out());
  strata::linear({&weight, weights_.vector(head.bias), y}, input(x, weight.quantised()), context());
  return y;
}

}  // namespace strata
