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

// What transformers takes where config.json says nothing; files leave out what equals the default.
struct HfArchitecture {
  const char* model_type;
  const char* name;  // ours
  const char* activation_key;
  const char* activation;
  int head_size;  // 0: hidden_size / num_attention_heads
  int kv_heads;   // 0: num_attention_heads
  double rope_base;
  int64_t context;
  int window;  // of windowed layers; -1: this architecture has none
  bool tied;
};

constexpr std::array kArchitectures = {
    HfArchitecture{"llama", "llama", "hidden_act", "silu", 0, 0, 1e4, 2048, -1, false},
    HfArchitecture{"mistral", "mistral", "hidden_act", "silu", 0, 8, 1e4, 131072, 4096, false},
    HfArchitecture{"qwen2", "qwen2", "hidden_act", "silu", 0, 32, 1e4, 32768, 4096, false},
    HfArchitecture{"qwen3", "qwen3", "hidden_act", "silu", 128, 32, 1e4, 32768, 4096, false},
    HfArchitecture{"gemma3_text", "gemma3", "hidden_activation", "gelu_pytorch_tanh", 256, 4, 1e6,
                   131072, 4096, true},
    // What `strata train` writes for a GPT that neither of the others can say (train/gpt_folder.h).
    HfArchitecture{"strata_gpt", "strata_gpt", "hidden_act", "gelu_new", 0, 0, 1e4, 1024, -1, true},
    HfArchitecture{"gpt2", "gpt2", "activation_function", "gelu_new", 0, 0, 0, 1024, -1, true},
};

const HfArchitecture& find_architecture(JsonKeys& k) {
  const std::optional<std::string> type = k.find_text("model_type");
  if (!type) k.refuse("model_type", "is missing");
  std::string known;
  for (const HfArchitecture& a : kArchitectures) {
    if (a.model_type == *type) return a;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", a.model_type);
  }
  fail(ErrorCode::unsupported, "{}: key 'model_type' is '{}': strata reads {}", k.file(), *type,
       known);
}

Activation read_activation(JsonKeys& k, const HfArchitecture& a) {
  const std::string name = k.find_text(a.activation_key).value_or(a.activation);
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast")
    return Activation::gelu_tanh;
  if (name == "gelu") return Activation::gelu_erf;
  if (name == "relu") return Activation::relu;
  k.unsupported(a.activation_key, "'" + name + "'", "this activation");
}

void read_sizes(JsonKeys& k, const HfArchitecture& a, ModelSpec& spec) {
  const bool gpt2 = std::string_view(a.name) == "gpt2";
  ModelConfig& c = spec.config;
  ModelSpec::Keys& keys = spec.keys;
  keys = {"vocab_size",
          gpt2 ? "n_embd" : "hidden_size",
          gpt2 ? "n_inner" : "intermediate_size",
          gpt2 ? "n_head" : "num_attention_heads",
          "num_key_value_heads",
          "head_dim",
          gpt2 ? "n_positions" : "max_position_embeddings"};
  c.vocabulary_size = k.get_integer(keys.vocabulary_size, 1, kMaxVocabulary);
  c.hidden_size = k.get_integer(keys.hidden_size, 1, kMaxWidth);
  c.layers = static_cast<int>(k.get_integer(gpt2 ? "n_layer" : "num_hidden_layers", 1, kMaxLayers));
  c.heads = static_cast<int>(k.get_integer(keys.heads, 1, kMaxHeads));
  c.mlp_size = gpt2 ? k.find_integer(keys.mlp_size, 1, kMaxWidth).value_or(4 * c.hidden_size)
                    : k.get_integer(keys.mlp_size, 1, kMaxWidth);
  c.context_length =
      std::min(k.find_integer(keys.context_length, 1, std::numeric_limits<int64_t>::max())
                   .value_or(a.context),
               kMaxContext);

  c.kv_heads = a.kv_heads > 0 ? a.kv_heads : c.heads;
  if (gpt2) {
    keys.kv_heads = keys.heads;
  } else {
    c.kv_heads = static_cast<int>(k.find_integer(keys.kv_heads, 1, c.heads).value_or(c.kv_heads));
    if (c.heads % c.kv_heads != 0)
      k.refuse(keys.kv_heads,
               fmt::format("is {}, wanted a divisor of {} = {}", c.kv_heads, keys.heads, c.heads));
  }
  std::optional<int64_t> head_size;
  if (!gpt2) head_size = k.find_integer(keys.head_size, 1, kMaxHeadSize);
  if (!head_size && a.head_size > 0) head_size = a.head_size;
  if (!head_size) {
    keys.head_size = keys.hidden_size + " / " + keys.heads;
    if (c.hidden_size % c.heads != 0 || c.hidden_size / c.heads > kMaxHeadSize)
      k.refuse(keys.heads,
               fmt::format("is {}, wanted a divisor of {} = {} that leaves heads of at most {}",
                           c.heads, keys.hidden_size, c.hidden_size, kMaxHeadSize));
    head_size = c.hidden_size / c.heads;
  }
  c.head_size = static_cast<int>(*head_size);
}

// An object with "rope_type" (older: "type") and its numbers.
RopeParameters read_rope_object(JsonKeys& k, RopeParameters p, const ModelConfig& c) {
  p.base = k.find_real("rope_theta", 1, kMaxReal).value_or(p.base);
  k.want_neutral("partial_rotary_factor", 1, "rotation of a part of each head");
  const std::optional<std::string> old_name = k.find_text("type");
  const std::string type = k.find_text("rope_type").value_or(old_name.value_or("default"));
  if (type == "default") return p;
  const double original =
      k.find_real("original_max_position_embeddings", 0, static_cast<double>(kMaxContext))
          .value_or(static_cast<double>(c.context_length));
  std::optional<double> factor = k.find_real("factor", 0, 1e6);
  if (!factor && type == "yarn") factor = static_cast<double>(c.context_length) / original;
  if (!factor) k.refuse("factor", "is missing");
  p.factor = *factor;
  if (type == "linear") {
    p.scaling = RopeParameters::Scaling::linear;
  } else if (type == "llama3") {
    p.scaling = RopeParameters::Scaling::llama3;
    p.original_context = original;
    p.low_frequency_factor = k.find_real("low_freq_factor", 0, kMaxReal).value_or(1);
    p.high_frequency_factor = k.find_real("high_freq_factor", 0, kMaxReal).value_or(4);
    if (p.high_frequency_factor <= p.low_frequency_factor)
      k.refuse("high_freq_factor", fmt::format("is {}, wanted more than low_freq_factor = {}",
                                               p.high_frequency_factor, p.low_frequency_factor));
  } else if (type == "yarn") {
    p.scaling = RopeParameters::Scaling::yarn;
    p.original_context = original;
    p.beta_fast = k.find_real("beta_fast", 0, kMaxReal).value_or(p.beta_fast);
    p.beta_slow = k.find_real("beta_slow", 0, kMaxReal).value_or(p.beta_slow);
    p.truncate = k.find_flag("truncate").value_or(true);
    p.attention_factor = k.find_real("attention_factor", 0, kMaxReal);
    const double mscale = k.find_real("mscale", -1, kMaxReal).value_or(0);
    const double mscale_all = k.find_real("mscale_all_dim", -1, kMaxReal).value_or(0);
    if (!p.attention_factor && mscale != 0 && mscale_all != 0)
      p.attention_factor =
          yarn_attention_scale(p.factor, mscale) / yarn_attention_scale(p.factor, mscale_all);
  } else {
    k.unsupported("rope_type", "'" + type + "'", "this rope scaling");
  }
  return p;
}

// The ropes of global and of local layers; they differ in Gemma 3 only.
struct Ropes {
  RopeParameters global;
  RopeParameters local;
};

Ropes read_ropes(JsonKeys& k, const HfArchitecture& a, const ModelConfig& c,
                 std::vector<std::string>& unknown) {
  const bool two = std::string_view(a.name) == "gemma3";
  RopeParameters global;
  global.dimensions = c.head_size;
  global.base = k.find_real("rope_theta", 1, kMaxReal).value_or(a.rope_base);
  RopeParameters local = global;
  if (two) local.base = k.find_real("rope_local_base_freq", 1, kMaxReal).value_or(1e4);
  k.want_neutral("partial_rotary_factor", 1, "rotation of a part of each head");
  k.want_neutral_flag("rope_interleaved", false,
                      "interleaved rotary pairs in a transformers model");

  // rope_scaling is the older name of what transformers 5 writes as rope_parameters, where it also
  // holds the base and, for Gemma 3, one object per kind of layer.
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    std::optional<JsonKeys> object = k.find_object(key);
    if (!object) continue;
    const auto read = [&](JsonKeys& keys, RopeParameters& p) {
      p = read_rope_object(keys, p, c);
      for (const std::string& name : keys.unread()) unknown.push_back(name);
    };
    if (two && (object->is_object("full_attention") || object->is_object("sliding_attention"))) {
      if (auto part = object->find_object("full_attention")) read(*part, global);
      if (auto part = object->find_object("sliding_attention")) read(*part, local);
      for (const std::string& name : object->unread()) unknown.push_back(name);
    } else {
      read(*object, global);
    }
  }
  if (!two) local = global;
  for (const RopeParameters& p : {global, local})
    if (p.dimensions % 2 != 0)
      k.refuse("head_dim", fmt::format("is {}, wanted an even number", p.dimensions));
  return {global, local};
}

// The window of every layer: from layer_types where the file has it, else by the rule of the
// architecture.
std::vector<int> read_windows(JsonKeys& k, const HfArchitecture& a, const ModelConfig& c) {
  const auto layers = static_cast<size_t>(c.layers);
  std::vector<int> windows(layers, 0);
  if (a.window < 0) return windows;
  const std::string_view name = a.name;
  // An explicit null means no window; an absent key means the default.
  auto window = static_cast<int>(k.find_integer("sliding_window", 1, kMaxContext)
                                     .value_or(k.has_null("sliding_window") ? 0 : a.window));
  const bool qwen = name == "qwen2" || name == "qwen3";
  if (qwen && !k.find_flag("use_sliding_window").value_or(false)) window = 0;
  const auto first_windowed = static_cast<size_t>(
      qwen ? k.find_integer("max_window_layers", 0, kMaxLayers).value_or(28) : 0);
  const auto period = static_cast<size_t>(
      name == "gemma3"
          ? k.find_integer("sliding_window_pattern", 1, kMaxLayers)
                .value_or(k.find_integer("_sliding_window_pattern", 1, kMaxLayers).value_or(6))
          : 0);

  if (const auto types = k.find_texts("layer_types")) {
    if (types->size() != layers)
      k.refuse("layer_types",
               fmt::format("has {} entries, wanted num_hidden_layers = {}", types->size(), layers));
    for (size_t i = 0; i < layers; ++i) {
      const std::string& type = (*types)[i];
      if (type != "sliding_attention" && type != "full_attention")
        k.unsupported("layer_types", "'" + type + "'", "this kind of attention");
      if (type == "sliding_attention") {
        if (window == 0)
          k.refuse("sliding_window", "is missing, and layer_types has windowed layers");
        windows[i] = window;
      }
    }
    return windows;
  }
  for (size_t i = 0; i < layers; ++i) {
    const bool global = (period > 0 && (i + 1) % period == 0) || i < first_windowed;
    windows[i] = global ? 0 : window;
  }
  return windows;
}

// The keys in which a strata_gpt differs from a Llama. Throws data_corrupt for other words.
void read_gpt_parts(JsonKeys& k, ModelSpec& spec) {
  const auto either = [&](const char* key, const char* yes, const char* no) {
    const std::string word = k.find_text(key).value_or(no);
    if (word != yes && word != no)
      k.refuse(key, fmt::format("is '{}', wanted '{}' or '{}'", word, yes, no));
    return word == yes;
  };
  spec.norm = either("norm_type", "layer", "rms") ? NormKind::layer : NormKind::rms;
  spec.learned_positions = either("position_embedding", "learned", "rotary");
  spec.gated_mlp = k.find_flag("gated_mlp").value_or(true);
  const bool bias = k.find_flag("use_bias").value_or(false);
  spec.qkv_bias = spec.output_bias = spec.mlp_bias = bias ? Presence::present : Presence::absent;
  if (!spec.learned_positions) return;
  spec.ropes.clear();
  for (LayerSpec& layer : spec.layers) layer.rope = -1;
}

void refuse_other_mathematics(JsonKeys& k) {
  k.want_neutral("num_local_experts", 0, "a mixture of experts");
  k.want_neutral("num_experts", 0, "a mixture of experts");
  k.want_neutral("attn_logit_softcapping", 0, "a soft cap of attention scores");
  k.want_neutral("final_logit_softcapping", 0, "a soft cap of logits");
  k.want_neutral("logit_scale", 1, "scaling of logits");
  k.want_neutral("logits_scaling", 1, "scaling of logits");
  k.want_neutral("residual_multiplier", 1, "scaling of residuals");
  k.want_neutral("embedding_multiplier", 1, "scaling of embeddings");
  k.want_neutral("attention_multiplier", 1, "another scale of attention");
  k.want_neutral("num_kv_shared_layers", 0, "layers that share keys and values");
  k.want_neutral_flag("use_bidirectional_attention", false, "attention in both directions");
  k.want_neutral_flag("is_encoder_decoder", false, "an encoder");
  k.want_neutral_flag("add_cross_attention", false, "cross attention");
  k.want_neutral_flag("scale_attn_weights", true, "attention without scale");
  k.want_neutral_flag("alibi", false, "ALiBi");
  if (const auto quantisation = k.find_object("quantization_config")) {
    // Of ours the tensors themselves say what they are (io/safetensors.h); the entry is there for
    // other programs, which do not know the method and say so.
    JsonKeys q = *quantisation;
    const std::string method = q.find_text("quant_method").value_or("unknown");
    if (method != "strata")
      k.unsupported("quantization_config", "'" + method + "'", "this quantised format of weights");
  }
}

// Keys that describe the file, its training, its tokenizer or how transformers runs it.
constexpr std::string_view kInert[] = {
    "_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "architectures",
    "attention_dropout", "attn_pdrop", "auto_map", "bos_token_id", "cache_implementation",
    "chunk_size_feed_forward", "decoder_start_token_id", "dtype", "embd_pdrop", "eos_token_id",
    "finetuning_task", "gradient_checkpointing", "id2label", "initializer_range", "is_decoder",
    "is_llama_config", "label2id", "max_length", "n_ctx", "output_attentions",
    "output_hidden_states", "pad_token_id", "pretraining_tp", "problem_type",
    "reorder_and_upcast_attn", "resid_pdrop", "return_dict", "sep_token_id", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
    "task_specific_params", "tokenizer_class", "torch_dtype", "torchscript",
    "transformers.js_config", "transformers_version", "unsloth_fixed", "unsloth_version",
    "use_cache", "use_mamba_kernels", "vocab_file",
    // Read by other architectures of this list; without effect where they are not read.
    "max_window_layers", "sliding_window", "use_sliding_window", "head_dim"};

void classify_rest(const JsonKeys& k, ModelConfig& c) {
  for (const std::string& key : k.unread()) {
    const bool inert = std::find(std::begin(kInert), std::end(kInert), key) != std::end(kInert);
    (inert ? c.inert_keys : c.unknown_keys).push_back(key);
  }
}

}  // namespace

ModelSpec read_hf_spec(JsonKeys& k) {
  const HfArchitecture& a = find_architecture(k);
  const std::string_view name = a.name;
  ModelSpec spec;
  ModelConfig& c = spec.config;
  c.architecture = a.name;
  c.name = k.find_text("_name_or_path").value_or("");
  read_sizes(k, a, spec);
  refuse_other_mathematics(k);
  spec.activation = read_activation(k, a);
  spec.own_head =
      k.find_flag("tie_word_embeddings").value_or(a.tied) ? Presence::absent : Presence::present;
  const bool gpt2 = name == "gpt2";
  spec.norm_epsilon = gpt2 ? k.find_real("layer_norm_epsilon", 0, 1).value_or(1e-5)
                           : k.find_real("rms_norm_eps", 0, 1).value_or(1e-6);

  const std::vector<int> windows = read_windows(k, a, c);
  double scalar = c.head_size;
  if (name == "gemma3") scalar = k.find_real("query_pre_attn_scalar", 0, kMaxReal).value_or(256);
  const bool by_layer = gpt2 && k.find_flag("scale_attn_by_inverse_layer_idx").value_or(false);
  for (int i = 0; i < c.layers; ++i) {
    LayerSpec layer;
    layer.window = windows[static_cast<size_t>(i)];
    layer.attention_scale = 1 / std::sqrt(scalar) / (by_layer ? i + 1 : 1);
    if (!gpt2) layer.rope = name == "gemma3" && layer.window > 0 ? 1 : 0;
    spec.layers.push_back(layer);
  }

  if (gpt2) {
    spec.norm = NormKind::layer;
    spec.gated_mlp = false;
    spec.learned_positions = true;
    spec.qkv_bias = spec.output_bias = spec.mlp_bias = Presence::present;
  } else {
    const Ropes ropes = read_ropes(k, a, c, c.unknown_keys);
    spec.ropes.push_back(make_rope(ropes.global, Rope::Layout::halves));
    if (name == "gemma3") spec.ropes.push_back(make_rope(ropes.local, Rope::Layout::halves));
    const bool attention_bias = name != "qwen2" && k.find_flag("attention_bias").value_or(false);
    spec.qkv_bias = attention_bias || name == "qwen2" ? Presence::present : Presence::absent;
    spec.output_bias = attention_bias ? Presence::present : Presence::absent;
    spec.mlp_bias = k.find_flag("mlp_bias").value_or(false) ? Presence::present : Presence::absent;
  }
  if (name == "strata_gpt") read_gpt_parts(k, spec);
  spec.qk_norm = name == "qwen3" || name == "gemma3";
  if (name == "gemma3") {
    spec.post_norms = true;
    spec.norm_weight_offset = 1;
    spec.embedding_scale = std::sqrt(static_cast<double>(c.hidden_size));
  }
  classify_rest(k, c);
  return spec;
}

}  // namespace strata
