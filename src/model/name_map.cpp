#include "model/name_map.h"

#include <array>

#include "base/error.h"

namespace strata {
namespace {

// llama, mistral, qwen2, qwen3: tensors an architecture lacks are never asked for.
constexpr NameRule kLlamaRules[] = {
    {"token_embd", "embed_tokens"},
    {"output_norm", "norm"},
    {"output", "/lm_head"},
    {"blk.#.attn_norm", "layers.#.input_layernorm"},
    {"blk.#.attn_q", "layers.#.self_attn.q_proj"},
    {"blk.#.attn_k", "layers.#.self_attn.k_proj"},
    {"blk.#.attn_v", "layers.#.self_attn.v_proj"},
    {"blk.#.attn_q_norm", "layers.#.self_attn.q_norm"},
    {"blk.#.attn_k_norm", "layers.#.self_attn.k_norm"},
    {"blk.#.attn_output", "layers.#.self_attn.o_proj"},
    {"blk.#.ffn_norm", "layers.#.post_attention_layernorm"},
    {"blk.#.ffn_gate", "layers.#.mlp.gate_proj"},
    {"blk.#.ffn_up", "layers.#.mlp.up_proj"},
    {"blk.#.ffn_down", "layers.#.mlp.down_proj"},
};

// Four norms a block; "post_attention_layernorm" means another place than in llama.
constexpr NameRule kGemma3Rules[] = {
    {"token_embd", "embed_tokens"},
    {"output_norm", "norm"},
    {"output", "/lm_head"},
    {"blk.#.attn_norm", "layers.#.input_layernorm"},
    {"blk.#.attn_q", "layers.#.self_attn.q_proj"},
    {"blk.#.attn_k", "layers.#.self_attn.k_proj"},
    {"blk.#.attn_v", "layers.#.self_attn.v_proj"},
    {"blk.#.attn_q_norm", "layers.#.self_attn.q_norm"},
    {"blk.#.attn_k_norm", "layers.#.self_attn.k_norm"},
    {"blk.#.attn_output", "layers.#.self_attn.o_proj"},
    {"blk.#.post_attention_norm", "layers.#.post_attention_layernorm"},
    {"blk.#.ffn_norm", "layers.#.pre_feedforward_layernorm"},
    {"blk.#.ffn_gate", "layers.#.mlp.gate_proj"},
    {"blk.#.ffn_up", "layers.#.mlp.up_proj"},
    {"blk.#.ffn_down", "layers.#.mlp.down_proj"},
    {"blk.#.post_ffw_norm", "layers.#.post_feedforward_layernorm"},
};

// Conv1D keeps its matrices [in, out].
constexpr NameRule kGpt2Rules[] = {
    {"token_embd", "wte"},
    {"position_embd", "wpe"},
    {"output_norm", "ln_f"},
    {"output", "/lm_head"},
    {"blk.#.attn_norm", "h.#.ln_1"},
    {"blk.#.attn_q", "h.#.attn.c_attn", FusedPart::q, true},
    {"blk.#.attn_k", "h.#.attn.c_attn", FusedPart::k, true},
    {"blk.#.attn_v", "h.#.attn.c_attn", FusedPart::v, true},
    {"blk.#.attn_output", "h.#.attn.c_proj", FusedPart::whole, true},
    {"blk.#.ffn_norm", "h.#.ln_2"},
    {"blk.#.ffn_up", "h.#.mlp.c_fc", FusedPart::whole, true},
    {"blk.#.ffn_down", "h.#.mlp.c_proj", FusedPart::whole, true},
};

constexpr NameRule kGgufFusedRules[] = {
    {"blk.#.attn_q", "blk.#.attn_qkv", FusedPart::q},
    {"blk.#.attn_k", "blk.#.attn_qkv", FusedPart::k},
    {"blk.#.attn_v", "blk.#.attn_qkv", FusedPart::v},
};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

std::string with_layer(std::string_view stem, int layer) {
  const size_t mark = stem.find('#');
  if (mark == std::string_view::npos) return std::string(stem);
  return fmt::format("{}{}{}", stem.substr(0, mark), layer, stem.substr(mark + 1));
}

NameMap NameMap::for_gguf(const TensorStore& store) {
  NameMap map;
  if (store.find("blk.0.attn_qkv.weight") != nullptr) map.rules_ = kGgufFusedRules;
  return map;
}

NameMap NameMap::for_hugging_face(std::string_view architecture, const TensorStore& store) {
  NameMap map;
  const bool gpt2 = architecture == "gpt2";
  if (architecture == "strata_gpt") return map;  // canonical names
  map.rules_ = gpt2                       ? std::span<const NameRule>(kGpt2Rules)
               : architecture == "gemma3" ? std::span<const NameRule>(kGemma3Rules)
                                          : std::span<const NameRule>(kLlamaRules);
  map.prefix_ = gpt2 ? "transformer." : "model.";
  // Files of the inner model alone (the first GPT-2 release) have no prefix.
  const std::string embedding = gpt2 ? "wte.weight" : "embed_tokens.weight";
  if (store.find(map.prefix_ + embedding) == nullptr && store.find(embedding) != nullptr)
    map.prefix_.clear();
  return map;
}

TensorPlace NameMap::place(std::string_view stem, int layer) const {
  for (const NameRule& rule : rules_) {
    if (rule.canonical != stem) continue;
    const std::string file = rule.file.front() == '/' ? std::string(rule.file.substr(1))
                                                      : prefix_ + std::string(rule.file);
    return {with_layer(file, layer), rule.part, rule.transposed};
  }
  return {with_layer(stem, layer)};
}

bool NameMap::is_buffer(std::string_view name) const {
  constexpr std::array kBuffers = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"};
  for (std::string_view end : kBuffers)
    if (ends_with(name, end)) return true;
  return false;
}

}  // namespace strata
