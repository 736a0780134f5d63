#include "train/gpt_model.h"

#include <cmath>
#include <numbers>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "model/bind.h"
#include "model/rope_scaling.h"
#include "train/memory_tensors.h"

namespace strata {
namespace {

constexpr double kDeviation = 0.02;

void check(const GptConfig& c) {
  const auto wrong = [](const std::string& what) {
    fail(ErrorCode::invalid_argument, "train: {}", what);
  };
  if (c.vocabulary < 1) wrong("the vocabulary is empty");
  if (c.layers < 1 || c.heads < 1 || c.kv_heads < 1 || c.hidden < 1 || c.mlp < 1 || c.context < 1)
    wrong("layers, heads, kv-heads, hidden, mlp and context must be at least 1");
  if (c.hidden % c.heads != 0)
    wrong(fmt::format("hidden = {} is no multiple of heads = {}", c.hidden, c.heads));
  if (c.heads % c.kv_heads != 0)
    wrong(fmt::format("heads = {} is no multiple of kv-heads = {}", c.heads, c.kv_heads));
  if (c.positions == GptPositions::rotary && c.hidden / c.heads % 2 != 0)
    wrong(fmt::format("rotary positions need heads of even size, hidden / heads is {}",
                      c.hidden / c.heads));
}

ModelSpec spec_of(const GptConfig& c) {
  ModelSpec spec;
  ModelConfig& m = spec.config;
  m.architecture = "gpt";
  m.vocabulary_size = c.vocabulary;
  m.hidden_size = c.hidden;
  m.mlp_size = c.mlp;
  m.layers = c.layers;
  m.heads = c.heads;
  m.kv_heads = c.kv_heads;
  m.head_size = static_cast<int>(c.hidden / c.heads);
  m.context_length = c.context;
  m.tied_head = c.tied;
  const bool rotary = c.positions == GptPositions::rotary;
  LayerSpec layer;
  layer.rope = rotary ? 0 : -1;
  layer.attention_scale = 1 / std::sqrt(static_cast<double>(m.head_size));
  spec.layers.assign(static_cast<size_t>(c.layers), layer);
  if (rotary) {
    RopeParameters rope;
    rope.dimensions = m.head_size;
    rope.base = c.rope_base;
    spec.ropes.push_back(make_rope(rope, Rope::Layout::halves));
  }
  spec.norm = c.norm;
  spec.norm_epsilon = c.norm_epsilon;
  spec.activation = c.activation;
  spec.gated_mlp = c.gated;
  spec.learned_positions = !rotary;
  spec.qkv_bias = spec.output_bias = spec.mlp_bias = c.bias ? Presence::present : Presence::absent;
  spec.own_head = c.tied ? Presence::absent : Presence::present;
  return spec;
}

std::vector<MemoryTensors::Shape> shapes_of(const GptConfig& c) {
  std::vector<MemoryTensors::Shape> shapes;
  const int64_t kv = c.hidden / c.heads * c.kv_heads;
  const auto linear = [&](const std::string& stem, int64_t out, int64_t in) {
    shapes.push_back({stem + ".weight", {out, in}});
    if (c.bias) shapes.push_back({stem + ".bias", {out}});
  };
  const auto norm = [&](const std::string& stem) {
    shapes.push_back({stem + ".weight", {c.hidden}});
    if (c.norm == NormKind::layer) shapes.push_back({stem + ".bias", {c.hidden}});
  };
  shapes.push_back({"token_embd.weight", {c.vocabulary, c.hidden}});
  if (c.positions != GptPositions::rotary)
    shapes.push_back({"position_embd.weight", {c.context, c.hidden}});
  for (int l = 0; l < c.layers; ++l) {
    const std::string block = fmt::format("blk.{}.", l);
    norm(block + "attn_norm");
    linear(block + "attn_q", c.hidden, c.hidden);
    linear(block + "attn_k", kv, c.hidden);
    linear(block + "attn_v", kv, c.hidden);
    linear(block + "attn_output", c.hidden, c.hidden);
    norm(block + "ffn_norm");
    if (c.gated) linear(block + "ffn_gate", c.mlp, c.hidden);
    linear(block + "ffn_up", c.mlp, c.hidden);
    linear(block + "ffn_down", c.hidden, c.mlp);
  }
  norm("output_norm");
  if (!c.tied) shapes.push_back({"output.weight", {c.vocabulary, c.hidden}});
  return shapes;
}

// Element i of a tensor: Box and Muller's transform of its own Philox block.
double normal(uint64_t seed, uint32_t tensor, int64_t i) {
  const auto words = philox4x32(
      {static_cast<uint32_t>(i), tensor, static_cast<uint32_t>(RandomPurpose::initialisation),
       static_cast<uint32_t>(i >> 32)},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const double u = 1 - uniform_from_words(words[0], words[1]);  // in (0, 1]
  const double v = uniform_from_words(words[2], words[3]);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

bool contains(const WeightRef& w, std::string_view part) {
  return w.name.find(part) != std::string::npos;
}

// Wave lengths from 2 pi to 20,000 pi (Vaswani et al. 2017), sized as the token rows are.
void fill_sinusoids(const GptConfig& c, float* table) {
  for (int64_t p = 0; p < c.context; ++p)
    for (int64_t i = 0; i < c.hidden; ++i) {
      const int64_t pair = i / 2;
      const double frequency =
          std::pow(1e-4, static_cast<double>(2 * pair) / static_cast<double>(c.hidden));
      const double angle = static_cast<double>(p) * frequency;
      table[p * c.hidden + i] = static_cast<float>(
          kDeviation * std::numbers::sqrt2 * (i % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
}

void initialise(const GptConfig& c, const WeightRef& w, uint64_t seed, float* values) {
  const int64_t n = w.out * w.in;
  const bool bias = contains(w, ".bias"), norm = contains(w, "norm.weight");
  if (bias || norm) {
    std::fill_n(values, n, norm ? 1.0f : 0.0f);
  } else if (!is_trainable(c, w)) {
    fill_sinusoids(c, values);
  } else {
    const bool residual = contains(w, "attn_output") || contains(w, "ffn_down");
    const double deviation = kDeviation / (residual ? std::sqrt(2.0 * c.layers) : 1.0);
    for (int64_t i = 0; i < n; ++i)
      values[i] = static_cast<float>(deviation * normal(seed, static_cast<uint32_t>(w.id), i));
  }
}

}  // namespace

GptLayout gpt_layout(const GptConfig& c) {
  const bool table = c.positions != GptPositions::rotary;
  if (table && c.norm == NormKind::layer && !c.gated && c.activation != Activation::silu &&
      c.heads == c.kv_heads)
    return GptLayout::gpt2;
  if (!table && c.norm == NormKind::rms && c.gated && c.activation == Activation::silu && !c.bias)
    return GptLayout::llama;
  return GptLayout::strata;
}

bool is_trainable(const GptConfig& c, const WeightRef& w) {
  return c.positions != GptPositions::sinusoidal || w.name != "position_embd.weight";
}

std::unique_ptr<Model> make_gpt(const GptConfig& c, uint64_t seed) {
  check(c);
  const ModelSpec spec = spec_of(c);
  auto model = std::make_unique<Model>();
  auto store = std::make_unique<MemoryTensors>(shapes_of(c));
  const MemoryTensors& memory = *store;
  model->config = spec.config;
  model->store = std::move(store);
  for (const Rope& rope : spec.ropes) model->ropes.push_back(std::make_unique<Rope>(rope));
  bind_weights(*model, spec, NameMap::for_gguf(*model->store));
  model->layer_groups = {{0, {}}};
  for (int l = 0; l < c.layers; ++l) model->layer_groups[0].layers.push_back(l);
  for (const WeightRef& w : model->weights) initialise(c, w, seed, memory.values(w));
  return model;
}

}  // namespace strata
