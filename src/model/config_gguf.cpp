#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "model/key_reader.h"
#include "model/rope_scaling.h"
#include "model/spec.h"

namespace strata {
namespace {

constexpr double kMaxReal = 1e30;

// The keys of one architecture: "llama.block_count" is arch("block_count").
class ArchKeys {
 public:
  ArchKeys(GgufKeys& keys, std::string prefix) : keys_(keys), prefix_(std::move(prefix) + ".") {}
  std::string operator()(std::string_view key) const { return prefix_ + std::string(key); }
  GgufKeys& keys() const { return keys_; }

 private:
  GgufKeys& keys_;
  std::string prefix_;
};

// What the names promise and strata does not do; absent or neutral values ask for nothing.
void refuse_other_mathematics(const ArchKeys& arch) {
  GgufKeys& k = arch.keys();
  k.want_neutral(arch("expert_count"), 0, "a mixture of experts");
  for (const char* key : {"expert_used_count", "expert_shared_count", "nextn_predict_layers"})
    k.want_neutral(arch(key), 0, "a mixture of experts or extra prediction layers");
  k.want_neutral(arch("attn_logit_softcapping"), 0, "a soft cap of attention scores");
  k.want_neutral(arch("final_logit_softcapping"), 0, "a soft cap of logits");
  k.want_neutral(arch("logit_scale"), 1, "scaling of logits");
  k.want_neutral(arch("residual_scale"), 1, "scaling of residuals");
  k.want_neutral(arch("embedding_scale"), 1, "another scale of embeddings");
  k.want_neutral(arch("attention.max_alibi_bias"), 0, "ALiBi");
  k.want_neutral(arch("attention.clamp_kqv"), 0, "clamping of q, k and v");
  k.want_neutral(arch("attention.q_lora_rank"), 0, "latent attention");
  k.want_neutral(arch("attention.kv_lora_rank"), 0, "latent attention");
  k.want_neutral(arch("attention.shared_kv_layers"), 0, "layers that share keys and values");
  k.want_neutral(arch("attention.temperature_scale"), 0, "attention temperature by position");
  k.want_neutral(arch("attention.output_scale"), 1, "scaling of attention outputs");
  k.want_neutral(arch("rope.scaling.alpha"), 0, "NTK-alpha rope scaling");
  k.want_neutral(arch("rope.scaling.yarn_log_multiplier"), 0, "yarn's log multiplier");
  k.want_neutral(arch("rope.scaling.yarn_ext_factor"), 1, "another yarn mix");
  k.want_neutral_flag(arch("use_parallel_residual"), false, "a parallel residual");
  k.want_neutral_flag(arch("attention.causal"), true, "attention in both directions");
}

int64_t vocabulary_size(const ArchKeys& arch, ModelSpec& spec) {
  GgufKeys& k = arch.keys();
  spec.keys.vocabulary_size = arch("vocab_size");
  if (const auto size = k.find_integer(arch("vocab_size"), 1, kMaxVocabulary)) return *size;
  spec.keys.vocabulary_size = "tokenizer.ggml.tokens";
  const GgufValue* tokens = k.metadata().find("tokenizer.ggml.tokens");
  const auto* array = tokens == nullptr ? nullptr : std::get_if<GgufArray>(&tokens->data);
  if (array == nullptr)
    k.refuse(arch("vocab_size"), "is missing, and there is no list tokenizer.ggml.tokens");
  if (array->count < 1 || array->count > static_cast<uint64_t>(kMaxVocabulary))
    k.refuse("tokenizer.ggml.tokens",
             fmt::format("has {} tokens, wanted 1 to {}", array->count, kMaxVocabulary));
  return static_cast<int64_t>(array->count);
}

void read_sizes(const ArchKeys& arch, ModelSpec& spec) {
  GgufKeys& k = arch.keys();
  ModelConfig& c = spec.config;
  c.hidden_size = k.get_integer(arch("embedding_length"), 1, kMaxWidth);
  c.mlp_size = k.get_integer(arch("feed_forward_length"), 1, kMaxWidth);
  c.layers = static_cast<int>(k.get_integer(arch("block_count"), 1, kMaxLayers));
  c.heads = static_cast<int>(k.get_integer(arch("attention.head_count"), 1, kMaxHeads));
  c.kv_heads = static_cast<int>(
      k.find_integer(arch("attention.head_count_kv"), 1, c.heads).value_or(c.heads));
  if (c.heads % c.kv_heads != 0)
    k.refuse(arch("attention.head_count_kv"),
             fmt::format("is {}, wanted a divisor of {} = {}", c.kv_heads,
                         arch("attention.head_count"), c.heads));
  spec.keys.head_size = arch("attention.key_length");
  if (const auto size = k.find_integer(arch("attention.key_length"), 1, kMaxHeadSize)) {
    c.head_size = static_cast<int>(*size);
  } else {
    spec.keys.head_size = arch("embedding_length") + " / " + arch("attention.head_count");
    if (c.hidden_size % c.heads != 0 || c.hidden_size / c.heads > kMaxHeadSize)
      k.refuse(arch("attention.head_count"),
               fmt::format("is {}, wanted a divisor of {} = {} that leaves heads of at most {}",
                           c.heads, arch("embedding_length"), c.hidden_size, kMaxHeadSize));
    c.head_size = static_cast<int>(c.hidden_size / c.heads);
  }
  k.want_neutral(arch("attention.value_length"), c.head_size,
                 "a head of values that is not as wide as that of keys");
  c.context_length = std::min(
      k.get_integer(arch("context_length"), 1, std::numeric_limits<int64_t>::max()), kMaxContext);
  c.vocabulary_size = vocabulary_size(arch, spec);
  spec.keys.hidden_size = arch("embedding_length");
  spec.keys.mlp_size = arch("feed_forward_length");
  spec.keys.heads = arch("attention.head_count");
  spec.keys.kv_heads = arch("attention.head_count_kv");
  spec.keys.context_length = arch("context_length");
}

// Which layers see only a window, from a list of booleans, a period (every n-th layer is global) or
// what the architecture does when its file says nothing.
std::vector<int> read_windows(const ArchKeys& arch, const ModelSpec& spec, int default_period) {
  GgufKeys& k = arch.keys();
  const int layers = spec.config.layers;
  std::vector<int> windows(static_cast<size_t>(layers), 0);
  const std::string pattern_key = arch("attention.sliding_window_pattern");
  const auto window = static_cast<int>(
      k.find_integer(arch("attention.sliding_window"), 0, kMaxContext).value_or(0));
  k.mark_read(pattern_key);
  if (window == 0) return windows;

  const GgufValue* pattern = k.metadata().find(pattern_key);
  if (pattern != nullptr && std::holds_alternative<GgufArray>(pattern->data)) {
    const std::vector<bool> local = *k.metadata().find_bools(pattern_key);
    if (local.size() != windows.size())
      k.refuse(pattern_key, fmt::format("has {} entries, wanted {} = {}", local.size(),
                                        arch("block_count"), layers));
    for (size_t i = 0; i < windows.size(); ++i) windows[i] = local[i] ? window : 0;
    return windows;
  }
  const auto period =
      static_cast<int>(k.find_integer(pattern_key, 0, kMaxLayers).value_or(default_period));
  for (int i = 0; i < layers; ++i)
    windows[static_cast<size_t>(i)] = period > 0 && (i + 1) % period == 0 ? 0 : window;
  return windows;
}

RopeParameters read_rope(const ArchKeys& arch, const ModelConfig& c) {
  GgufKeys& k = arch.keys();
  RopeParameters p;
  p.dimensions = static_cast<int>(
      k.find_integer(arch("rope.dimension_count"), 2, c.head_size).value_or(c.head_size));
  if (p.dimensions % 2 != 0)
    k.refuse(arch("rope.dimension_count"),
             fmt::format("is {}, wanted an even number", p.dimensions));
  p.base = k.find_real(arch("rope.freq_base"), 1, kMaxReal).value_or(10000);

  const std::string type_key = arch("rope.scaling.type");
  std::optional<double> factor = k.find_real(arch("rope.scaling.factor"), 0, 1e6);
  if (!factor) factor = k.find_real(arch("rope.scale_linear"), 0, 1e6);
  p.factor = factor.value_or(1);
  const double original =
      k.find_real(arch("rope.scaling.original_context_length"), 0, static_cast<double>(kMaxContext))
          .value_or(static_cast<double>(c.context_length));
  const double attention_factor =
      k.find_real(arch("rope.scaling.attn_factor"), 0, kMaxReal).value_or(1);
  p.beta_fast = k.find_real(arch("rope.scaling.yarn_beta_fast"), 0, kMaxReal).value_or(32);
  p.beta_slow = k.find_real(arch("rope.scaling.yarn_beta_slow"), 0, kMaxReal).value_or(1);
  // The second is what llama.cpp overwrites wherever yarn is on.
  for (const char* key : {"rope.scaling.finetuned", "rope.scaling.yarn_attn_factor"})
    k.mark_read(arch(key));

  const std::string type = k.find_text(type_key).value_or(p.factor == 1 ? "none" : "linear");
  if (type == "none") return p;
  if (type == "linear") {
    p.scaling = RopeParameters::Scaling::linear;
  } else if (type == "yarn") {
    p.scaling = RopeParameters::Scaling::yarn;
    p.original_context = original;
    p.attention_factor = attention_factor * yarn_attention_scale(p.factor);
  } else {
    k.unsupported(type_key, "'" + type + "'", "this rope scaling");
  }
  return p;
}

void classify_rest(const GgufKeys& k, ModelConfig& c) {
  // What describes the file or belongs to the tokenizer, and notes of tools.
  constexpr std::array kInert = {"general.", "tokenizer.", "split.", "quantize.", "imatrix."};
  for (const std::string& key : k.unread()) {
    const bool inert = std::any_of(kInert.begin(), kInert.end(),
                                   [&](std::string_view prefix) {
                                     return key.compare(0, prefix.size(), prefix) == 0;
                                   }) ||
                       key == c.architecture + ".tensor_data_layout";
    (inert ? c.inert_keys : c.unknown_keys).push_back(key);
  }
}

struct Architecture {
  const char* name;
  const char* epsilon_key;
  Rope::Layout layout;
  // Every n-th layer is global where a window is given; 0: none is; -1: such files do not exist.
  int window_period;
};

// "mistral" is no name llama.cpp writes (it says "llama"), but the name is unambiguous.
constexpr std::array kArchitectures = {
    Architecture{"llama", "attention.layer_norm_rms_epsilon", Rope::Layout::pairs, 0},
    Architecture{"mistral", "attention.layer_norm_rms_epsilon", Rope::Layout::pairs, 0},
    Architecture{"qwen2", "attention.layer_norm_rms_epsilon", Rope::Layout::halves, -1},
    Architecture{"qwen3", "attention.layer_norm_rms_epsilon", Rope::Layout::halves, -1},
    Architecture{"gemma3", "attention.layer_norm_rms_epsilon", Rope::Layout::halves, 6},
    Architecture{"gpt2", "attention.layer_norm_epsilon", Rope::Layout::halves, -1},
};

const Architecture& find_architecture(GgufKeys& k) {
  const std::string key = "general.architecture";
  const std::optional<std::string> name = k.find_text(key);
  if (!name) k.refuse(key, "is missing");
  std::string known;
  for (const Architecture& a : kArchitectures) {
    if (a.name == *name) return a;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", a.name);
  }
  fail(ErrorCode::unsupported, "{}: key '{}' is '{}': strata reads {}", k.file(), key, *name,
       known);
}

void fill_gpt2(ModelSpec& spec) {
  spec.norm = NormKind::layer;
  spec.activation = Activation::gelu_tanh;
  spec.gated_mlp = false;
  spec.learned_positions = true;
  spec.qkv_bias = spec.output_bias = spec.mlp_bias = Presence::present;
}

void fill_gemma3(const ArchKeys& arch, ModelSpec& spec, const std::vector<int>& windows) {
  GgufKeys& k = arch.keys();
  const ModelConfig& c = spec.config;
  spec.activation = Activation::gelu_tanh;
  spec.qk_norm = true;
  spec.post_norms = true;
  spec.embedding_scale = std::sqrt(static_cast<double>(c.hidden_size));
  // Local layers have a base of their own and no scaling.
  RopeParameters local;
  local.dimensions =
      spec.layers.empty() ? 0 : static_cast<int>(spec.ropes[0].inverse_frequency.size()) * 2;
  local.base = k.find_real(arch("rope.freq_base_swa"), 1, kMaxReal).value_or(10000);
  spec.ropes.push_back(make_rope(local, Rope::Layout::halves));
  // The file has no key for query_pre_attn_scalar; it is the head size in all published models but
  // the one of 62 layers (27B), where it is the width over the heads.
  const double scalar = c.layers == 62 ? static_cast<double>(c.hidden_size) / c.heads : c.head_size;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (windows[i] > 0) spec.layers[i].rope = 1;
    spec.layers[i].attention_scale = 1 / std::sqrt(scalar);
  }
}

}  // namespace

ModelSpec read_gguf_spec(GgufKeys& k) {
  const Architecture& architecture = find_architecture(k);
  const ArchKeys arch(k, architecture.name);
  ModelSpec spec;
  spec.config.architecture = architecture.name;
  spec.config.name = k.find_text("general.name").value_or("");
  read_sizes(arch, spec);
  refuse_other_mathematics(arch);
  const std::optional<double> epsilon = k.find_real(arch(architecture.epsilon_key), 0, 1);
  if (!epsilon) k.refuse(arch(architecture.epsilon_key), "is missing");
  spec.norm_epsilon = *epsilon;

  const std::vector<int> windows =
      read_windows(arch, spec, std::max(architecture.window_period, 0));
  const bool windowed = std::any_of(windows.begin(), windows.end(), [](int w) { return w > 0; });
  if (windowed && architecture.window_period < 0 &&
      !k.contains(arch("attention.sliding_window_pattern")))
    k.unsupported(arch("attention.sliding_window"), "set",
                  "a window without attention.sliding_window_pattern in this architecture");

  const std::string name = architecture.name;
  spec.layers.resize(static_cast<size_t>(spec.config.layers));
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    spec.layers[i].window = windows[i];
    spec.layers[i].attention_scale = 1 / std::sqrt(static_cast<double>(spec.config.head_size));
  }
  if (name != "gpt2") {
    spec.ropes.push_back(make_rope(read_rope(arch, spec.config), architecture.layout));
    for (LayerSpec& layer : spec.layers) layer.rope = 0;
  }

  if (name == "gpt2") fill_gpt2(spec);
  if (name == "gemma3") fill_gemma3(arch, spec, windows);
  if (name == "qwen2") spec.qkv_bias = Presence::present;
  if (name == "qwen3") spec.qk_norm = true;
  if (name == "llama" || name == "mistral")
    spec.qkv_bias = spec.output_bias = spec.mlp_bias = Presence::as_found;

  if (const auto scale = k.find_real(arch("attention.scale"), 0, kMaxReal))
    for (LayerSpec& layer : spec.layers) layer.attention_scale = *scale;
  classify_rest(k, spec.config);
  return spec;
}

}  // namespace strata
