#include "engine/random_model_for_test.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "numeric/half.h"

namespace strata {
namespace {

class MemoryStore : public TensorStore {
 public:
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const StoredTensor* find(std::string_view name) const override {
    for (const StoredTensor& t : tensors_)
      if (t.name == name) return &t;
    return nullptr;
  }
  const std::vector<std::string>& files() const override { return files_; }
  uint64_t file_bytes() const override { return 0; }
  void check_intact() const override {}
  void release_pages(std::span<const std::byte>) const override {}

  std::span<const std::byte> put(const std::string& name, TensorType type, int64_t out, int64_t in,
                                 std::vector<std::byte> bytes) {
    memory_.push_back(std::move(bytes));
    tensors_.push_back({name, type, {out, in}, memory_.back(), 0, 0});
    return memory_.back();
  }

 private:
  std::vector<StoredTensor> tensors_;
  std::vector<std::string> files_;
  std::deque<std::vector<std::byte>> memory_;
};

void put_f16(std::byte* p, float x) {
  const uint16_t bits = encode_f16(x);
  std::memcpy(p, &bits, 2);
}

class Builder {
 public:
  explicit Builder(const RandomModelOptions& o)
      : o_(o), random_(o.seed), model_(std::make_unique<Model>()) {
    auto store = std::make_unique<MemoryStore>();
    store_ = store.get();
    model_->store = std::move(store);
  }

  std::unique_ptr<Model> build() {
    configure();
    Transformer& t = model_->transformer;
    t.embedding.tokens = matrix("token_embd", o_.vocabulary, o_.hidden, o_.embedding_type, 1);
    if (o_.learned_positions)
      t.embedding.positions = matrix("position_embd", o_.context, o_.hidden, TensorType::f32, 0.5f);
    const Rope* rope = o_.learned_positions ? nullptr : make_rope();
    const LayerGroup full{0, {o_.layers - 1}};
    LayerGroup windowed{o_.window, {}};
    for (int l = 0; l < o_.layers; ++l) {
      t.blocks.push_back(block());
      BlockConfig c;
      const bool local = o_.window > 0 && l < o_.layers - 1;
      c.attention = {.heads = o_.heads,
                     .kv_heads = o_.kv_heads,
                     .head_size = o_.head_size,
                     .scale = 1 / std::sqrt(static_cast<double>(o_.head_size)),
                     .window = local ? o_.window : 0,
                     .layer_group = local ? 1 : 0,
                     .rope = rope};
      c.activation = o_.activation;
      t.block_configs.push_back(c);
      if (local) windowed.layers.push_back(l);
    }
    model_->layer_groups = {full, windowed};
    if (o_.window == 0) {
      model_->layer_groups = {{0, {}}};
      for (int l = 0; l < o_.layers; ++l) model_->layer_groups[0].layers.push_back(l);
    }
    t.output_norm = norm(o_.hidden);
    t.head.weight = o_.tied_head ? t.embedding.tokens
                                 : matrix("output", o_.vocabulary, o_.hidden, o_.linear_type, 2);
    return std::move(model_);
  }

 private:
  void configure() {
    ModelConfig& c = model_->config;
    c.architecture = "test";
    c.vocabulary_size = o_.vocabulary;
    c.hidden_size = o_.hidden;
    c.mlp_size = o_.mlp;
    c.layers = o_.layers;
    c.heads = o_.heads;
    c.kv_heads = o_.kv_heads;
    c.head_size = o_.head_size;
    c.context_length = o_.context;
    c.tied_head = o_.tied_head;
  }

  const Rope* make_rope() {
    auto rope = std::make_unique<Rope>();
    rope->layout = o_.rope;
    for (int i = 0; i < o_.head_size / 2; ++i)
      rope->inverse_frequency.push_back(std::pow(10'000.0, -2.0 * i / o_.head_size));
    model_->ropes.push_back(std::move(rope));
    return model_->ropes.back().get();
  }

  BlockWeights block() {
    const int64_t q = int64_t{o_.heads} * o_.head_size, k = int64_t{o_.kv_heads} * o_.head_size;
    BlockWeights b;
    b.attn_norm = norm(o_.hidden);
    b.attn.q = linear(q, o_.hidden, o_.qkv_bias);
    b.attn.k = linear(k, o_.hidden, o_.qkv_bias);
    b.attn.v = linear(k, o_.hidden, o_.qkv_bias);
    if (o_.qk_norm) {
      b.attn.q_norm = norm(o_.head_size);
      b.attn.k_norm = norm(o_.head_size);
    }
    b.attn_output = linear(o_.hidden, q, o_.layer_norm);
    if (o_.post_norm) b.attn_post_norm = norm(o_.hidden);
    b.mlp_norm = norm(o_.hidden);
    if (o_.gated_mlp) b.mlp.gate = linear(o_.mlp, o_.hidden, false);
    b.mlp.up = linear(o_.mlp, o_.hidden, o_.layer_norm);
    b.mlp.down = linear(o_.hidden, o_.mlp, o_.layer_norm);
    if (o_.post_norm) b.mlp_post_norm = norm(o_.hidden);
    return b;
  }

  Norm norm(int64_t size) {
    Norm n;
    n.kind = o_.layer_norm ? NormKind::layer : NormKind::rms;
    n.weight = matrix("norm", 1, size, TensorType::f32, 0.5f, 1);
    if (o_.layer_norm) n.bias = matrix("norm_bias", 1, size, TensorType::f32, 0.3f);
    return n;
  }

  Linear linear(int64_t out, int64_t in, bool bias) {
    Linear l;
    l.weight = matrix("linear", out, in, o_.linear_type, 1.8f / std::sqrt(static_cast<float>(in)));
    if (bias) l.bias = matrix("bias", 1, out, TensorType::f32, 0.5f);
    return l;
  }

  float uniform(float range) {
    return std::uniform_real_distribution<float>(-range, range)(random_);
  }

  // Values spread over (mean - range, mean + range), about.
  WeightRef matrix(const std::string& name, int64_t out, int64_t in, TensorType type, float range,
                   float mean = 0) {
    const TensorTypeInfo& info = tensor_type_info(type);
    STRATA_ASSERT(in % info.block_elements == 0);
    const int64_t blocks = out * in / info.block_elements;
    std::vector<std::byte> bytes(static_cast<size_t>(blocks * info.block_bytes));
    for (int64_t i = 0; i < blocks; ++i)
      fill_block(type, bytes.data() + i * info.block_bytes, info.block_bytes, range, mean);
    WeightRef w;
    w.id = static_cast<int32_t>(model_->weights.size());
    w.name = name + "." + std::to_string(w.id);
    w.out = out;
    w.in = in;
    w.type = type;
    w.row_stride = in / info.block_elements * info.block_bytes;
    w.element_stride = info.block_elements == 1 ? info.block_bytes : 0;
    w.bytes = store_->put(w.name, type, out, in, std::move(bytes));
    model_->weights.push_back(w);
    return w;
  }

  void fill_block(TensorType type, std::byte* p, int bytes, float range, float mean) {
    if (type == TensorType::f32) {
      const float x = mean + uniform(range);
      std::memcpy(p, &x, 4);
      return;
    }
    if (type == TensorType::f16) return put_f16(p, mean + uniform(range));
    for (int i = 0; i < bytes; ++i) p[i] = static_cast<std::byte>(random_() & 255);
    const float size = range * (0.7f + uniform(0.3f));
    switch (type) {
      case TensorType::q8_0:  // f16 d, int8 q[32]: d q
        return put_f16(p, size / 128);
      case TensorType::q4_0:  // f16 d, 16 bytes: d (q - 8)
        return put_f16(p, size / 8);
      case TensorType::q4_1:  // f16 d, f16 m, 16 bytes: d q + m
        put_f16(p, size / 8);
        return put_f16(p + 2, -size * 15 / 16);
      default:
        fail(ErrorCode::unsupported, "random_model: this type is not made");
    }
  }

  const RandomModelOptions& o_;
  std::mt19937 random_;
  std::unique_ptr<Model> model_;
  MemoryStore* store_;
};

}  // namespace

std::unique_ptr<Model> random_model(const RandomModelOptions& options) {
  return Builder(options).build();
}

}  // namespace strata
