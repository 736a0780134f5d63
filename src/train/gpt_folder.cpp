#include "train/gpt_folder.h"

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/replace_file.h"
#include "io/safetensors_writer.h"
#include "model/name_map.h"

namespace strata {
namespace {

const char* activation_name(Activation a) {
  switch (a) {
    case Activation::silu:
      return "silu";
    case Activation::gelu_tanh:
      return "gelu_new";
    case Activation::gelu_erf:
      return "gelu";
    case Activation::relu:
      return "relu";
  }
  return "";
}

OrderedJson gpt2_config(const GptConfig& c) {
  OrderedJson j;
  j["model_type"] = "gpt2";
  j["architectures"] = {"GPT2LMHeadModel"};
  j["vocab_size"] = c.vocabulary;
  j["n_embd"] = c.hidden;
  j["n_layer"] = c.layers;
  j["n_head"] = c.heads;
  j["n_positions"] = c.context;
  j["n_inner"] = c.mlp;
  j["activation_function"] = activation_name(c.activation);
  j["layer_norm_epsilon"] = c.norm_epsilon;
  // transformers would take another program's numbers for these.
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) j[key] = 0.0;
  return j;
}

OrderedJson llama_config(const GptConfig& c, bool strata) {
  OrderedJson j;
  j["model_type"] = strata ? "strata_gpt" : "llama";
  j["architectures"] = {strata ? "StrataGpt" : "LlamaForCausalLM"};
  j["vocab_size"] = c.vocabulary;
  j["hidden_size"] = c.hidden;
  j["intermediate_size"] = c.mlp;
  j["num_hidden_layers"] = c.layers;
  j["num_attention_heads"] = c.heads;
  j["num_key_value_heads"] = c.kv_heads;
  j["head_dim"] = c.hidden / c.heads;
  j["max_position_embeddings"] = c.context;
  j["hidden_act"] = activation_name(c.activation);
  j["rms_norm_eps"] = c.norm_epsilon;
  const bool rotary = c.positions == GptPositions::rotary;
  if (rotary) j["rope_theta"] = c.rope_base;
  if (strata) {
    j["position_embedding"] = rotary ? "rotary" : "learned";
    j["norm_type"] = c.norm == NormKind::rms ? "rms" : "layer";
    j["gated_mlp"] = c.gated;
    j["use_bias"] = c.bias;
  } else {
    j["attention_bias"] = false;
    j["mlp_bias"] = false;
  }
  return j;
}

OrderedJson config_json(const GptConfig& c, GptLayout layout) {
  OrderedJson j =
      layout == GptLayout::gpt2 ? gpt2_config(c) : llama_config(c, layout == GptLayout::strata);
  j["tie_word_embeddings"] = c.tied;
  j["bos_token_id"] = nullptr;
  j["eos_token_id"] = nullptr;
  j["torch_dtype"] = "float32";
  return j;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  ReplaceFile file(path);
  file.write(text);
  file.commit();
}

// The tensors of the file, some of them put together here.
class TensorList {
 public:
  explicit TensorList(const ParameterTable& parameters) : parameters_(parameters) {
    for (const Parameter& p : parameters.all()) by_name_[p.name] = &p;
  }

  const Parameter* find(const std::string& name) const {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
  }
  // As it is; nothing for a weight the model lacks.
  void add(const std::string& file_name, const std::string& name) {
    const Parameter* p = find(name);
    if (p == nullptr) return;
    put(file_name, shape_of(*p), p->value, p->size());
  }
  // [in, sum of out], as Conv1D has it.
  void add_transposed(const std::string& file_name, const std::vector<std::string>& names) {
    int64_t out = 0, in = 0;
    for (const std::string& name : names) {
      out += find(name)->out;
      in = find(name)->in;
    }
    std::vector<float>& made = made_.emplace_back(static_cast<size_t>(in * out));
    int64_t first = 0;
    for (const std::string& name : names) {
      const Parameter& p = *find(name);
      for (int64_t r = 0; r < p.out; ++r)
        for (int64_t c = 0; c < in; ++c)
          made[static_cast<size_t>(c * out + first + r)] = p.value[r * in + c];
      first += p.out;
    }
    put(file_name, {in, out}, made.data(), in * out);
  }
  // The biases one after the other; zeros where the model has none.
  void add_biases(const std::string& file_name, const std::vector<std::string>& stems) {
    std::vector<float>& made = made_.emplace_back();
    for (const std::string& stem : stems) {
      const int64_t size = find(stem + ".weight")->out;
      const Parameter* p = find(stem + ".bias");
      made.insert(made.end(), static_cast<size_t>(size), 0.0f);
      if (p != nullptr) std::copy_n(p->value, size, made.end() - size);
    }
    put(file_name, {static_cast<int64_t>(made.size())}, made.data(),
        static_cast<int64_t>(made.size()));
  }
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }

 private:
  static std::vector<int64_t> shape_of(const Parameter& p) {
    return p.out == 1 && p.name != "token_embd.weight" ? std::vector<int64_t>{p.in}
                                                       : std::vector<int64_t>{p.out, p.in};
  }
  void put(const std::string& name, std::vector<int64_t> shape, const float* values, int64_t n) {
    tensors_.push_back(
        {name,
         TensorType::f32,
         std::move(shape),
         {reinterpret_cast<const std::byte*>(values), static_cast<size_t>(n) * sizeof(float)}});
  }

  const ParameterTable& parameters_;
  std::map<std::string, const Parameter*> by_name_;
  std::deque<std::vector<float>> made_;
  std::vector<SafetensorsTensor> tensors_;
};

void add_gpt2_tensors(const GptConfig& c, TensorList& list) {
  const auto both = [&](const std::string& file, const std::string& name) {
    list.add(file + ".weight", name + ".weight");
    list.add(file + ".bias", name + ".bias");
  };
  const auto projection = [&](const std::string& file, const std::vector<std::string>& stems) {
    std::vector<std::string> weights;
    for (const std::string& stem : stems) weights.push_back(stem + ".weight");
    list.add_transposed(file + ".weight", weights);
    list.add_biases(file + ".bias", stems);
  };
  list.add("transformer.wte.weight", "token_embd.weight");
  list.add("transformer.wpe.weight", "position_embd.weight");
  for (int l = 0; l < c.layers; ++l) {
    const std::string from = fmt::format("blk.{}.", l), to = fmt::format("transformer.h.{}.", l);
    both(to + "ln_1", from + "attn_norm");
    projection(to + "attn.c_attn", {from + "attn_q", from + "attn_k", from + "attn_v"});
    projection(to + "attn.c_proj", {from + "attn_output"});
    both(to + "ln_2", from + "ffn_norm");
    projection(to + "mlp.c_fc", {from + "ffn_up"});
    projection(to + "mlp.c_proj", {from + "ffn_down"});
  }
  both("transformer.ln_f", "output_norm");
  list.add("lm_head.weight", "output.weight");
}

void add_llama_tensors(const GptConfig& c, TensorList& list) {
  const auto add = [&](const std::string& file, const std::string& name) {
    list.add(file + ".weight", name + ".weight");
  };
  add("model.embed_tokens", "token_embd");
  for (int l = 0; l < c.layers; ++l) {
    const std::string from = fmt::format("blk.{}.", l), to = fmt::format("model.layers.{}.", l);
    add(to + "input_layernorm", from + "attn_norm");
    add(to + "self_attn.q_proj", from + "attn_q");
    add(to + "self_attn.k_proj", from + "attn_k");
    add(to + "self_attn.v_proj", from + "attn_v");
    add(to + "self_attn.o_proj", from + "attn_output");
    add(to + "post_attention_layernorm", from + "ffn_norm");
    add(to + "mlp.gate_proj", from + "ffn_gate");
    add(to + "mlp.up_proj", from + "ffn_up");
    add(to + "mlp.down_proj", from + "ffn_down");
  }
  add("model.norm", "output_norm");
  add("lm_head", "output");
}

}  // namespace

void write_gpt_folder(const std::filesystem::path& folder, const GptConfig& config,
                      const ParameterTable& parameters, const std::string& tokenizer_json) {
  const GptLayout layout = gpt_layout(config);
  TensorList list(parameters);
  if (layout == GptLayout::gpt2) {
    add_gpt2_tensors(config, list);
  } else if (layout == GptLayout::llama) {
    add_llama_tensors(config, list);
  } else {
    for (const Parameter& p : parameters.all()) list.add(p.name, p.name);
  }
  write_text(folder / "config.json", config_json(config, layout).dump(1) + "\n");
  write_safetensors(folder / "model.safetensors", list.tensors(), {{"format", "pt"}});
  write_text(folder / "tokenizer.json", tokenizer_json);
}

void read_gpt_weights(const std::filesystem::path& folder, const ParameterTable& parameters) {
  const std::unique_ptr<Model> model = load_model(folder);
  for (const Parameter& p : parameters.all()) {
    const auto w = std::find_if(model->weights.begin(), model->weights.end(),
                                [&](const WeightRef& other) { return other.name == p.name; });
    if (w == model->weights.end() || w->out != p.out || w->in != p.in)
      fail(ErrorCode::data_corrupt, "{}: weight '{}' of [{}, {}] is not in it", folder.string(),
           p.name, p.out, p.in);
    for (int64_t r = 0; r < w->out; ++r) decode_weight_row(*w, r, p.value + r * p.in);
  }
  model->store->check_intact();
}

}  // namespace strata
