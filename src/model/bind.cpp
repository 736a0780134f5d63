#include "model/bind.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace strata {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t d : shape) text += fmt::format("{}{}", text.empty() ? "" : ", ", d);
  return "[" + text + "]";
}

// The first few of a list of names.
std::string name_list(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i]);
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

// A size and the key it comes from.
struct Size {
  int64_t value = 0;
  std::string key;
};

class Binder {
 public:
  Binder(Model& model, const ModelSpec& spec, const NameMap& names)
      : model_(model), spec_(spec), names_(names) {}

  // A weight or nothing; `required` ones are collected in the list of missing tensors.
  WeightRef matrix(std::string_view stem, int layer, const Size& out, const Size& in,
                   bool required);
  WeightRef vector(std::string_view stem, std::string_view suffix, int layer, const Size& size,
                   bool required);
  Linear linear(std::string_view stem, int layer, const Size& out, const Size& in, Presence bias);
  Norm norm(std::string_view stem, int layer, const Size& size);
  void scale_ropes();
  // Throws for missing and for surplus tensors.
  void finish(bool head_is_tied) const;

 private:
  const StoredTensor* find(const std::string& name, bool required);
  void check_shape(const StoredTensor& tensor, const std::vector<int64_t>& wanted,
                   const std::string& keys) const;
  // Gives the reference its id and a place in the model's table.
  WeightRef add(WeightRef weight);
  // First row of `part` in the fused rows, whose number is `total`.
  int64_t fused_offset(FusedPart part) const;
  int64_t fused_total() const;

  Model& model_;
  const ModelSpec& spec_;
  const NameMap& names_;
  std::set<std::string, std::less<>> used_;
  std::vector<std::string> missing_;
};

const StoredTensor* Binder::find(const std::string& name, bool required) {
  const StoredTensor* tensor = model_.store->find(name);
  if (tensor != nullptr) used_.insert(name);
  // Fused tensors are asked for three times.
  if (tensor == nullptr && required && (missing_.empty() || missing_.back() != name))
    missing_.push_back(name);
  return tensor;
}

void Binder::check_shape(const StoredTensor& tensor, const std::vector<int64_t>& wanted,
                         const std::string& keys) const {
  if (tensor.shape == wanted) return;
  fail(ErrorCode::data_corrupt, "{}: tensor '{}' has shape {}, wanted {} from {}",
       model_.store->files()[static_cast<size_t>(tensor.file)], tensor.name,
       shape_text(tensor.shape), shape_text(wanted), keys);
}

WeightRef Binder::add(WeightRef weight) {
  weight.id = static_cast<int32_t>(model_.weights.size());
  model_.weights.push_back(weight);
  model_.parameter_count += weight.out * weight.in;
  return weight;
}

int64_t Binder::fused_offset(FusedPart part) const {
  const ModelConfig& c = spec_.config;
  const int64_t q = int64_t{c.heads} * c.head_size;
  const int64_t k = int64_t{c.kv_heads} * c.head_size;
  return part == FusedPart::k ? q : part == FusedPart::v ? q + k : 0;
}

int64_t Binder::fused_total() const {
  return (int64_t{spec_.config.heads} + 2 * int64_t{spec_.config.kv_heads}) *
         spec_.config.head_size;
}

WeightRef Binder::matrix(std::string_view stem, int layer, const Size& out, const Size& in,
                         bool required) {
  const TensorPlace place = names_.place(stem, layer);
  const StoredTensor* tensor = find(place.stem + ".weight", required);
  if (tensor == nullptr) return {};
  const bool fused = place.part != FusedPart::whole;
  const int64_t file_out = fused ? fused_total() : out.value;
  check_shape(*tensor,
              place.transposed ? std::vector<int64_t>{in.value, file_out}
                               : std::vector<int64_t>{file_out, in.value},
              fmt::format("{} and {}", out.key, in.key));

  const TensorTypeInfo& type = tensor_type_info(tensor->type);
  WeightRef w;
  w.name = with_layer(stem, layer) + ".weight";
  w.out = out.value;
  w.in = in.value;
  w.type = tensor->type;
  const int64_t first = fused_offset(place.part);
  if (place.transposed) {
    if (type.block_elements > 1)
      fail(ErrorCode::unsupported,
           "{}: tensor '{}' has type {}, wanted F32, F16 or BF16 for a "
           "matrix stored transposed",
           model_.path.string(), tensor->name, type.name);
    w.row_stride = type.block_bytes;
    w.element_stride = file_out * type.block_bytes;
    const int64_t length = (w.in - 1) * w.element_stride + w.out * type.block_bytes;
    w.bytes = tensor->bytes.subspan(static_cast<size_t>(first * type.block_bytes),
                                    static_cast<size_t>(length));
  } else {
    w.row_stride = w.in / type.block_elements * type.block_bytes;
    w.element_stride = type.block_elements > 1 ? 0 : type.block_bytes;
    w.bytes = tensor->bytes.subspan(static_cast<size_t>(first * w.row_stride),
                                    static_cast<size_t>(w.out * w.row_stride));
  }
  return add(w);
}

WeightRef Binder::vector(std::string_view stem, std::string_view suffix, int layer,
                         const Size& size, bool required) {
  const TensorPlace place = names_.place(stem, layer);
  const StoredTensor* tensor = find(place.stem + std::string(suffix), required);
  if (tensor == nullptr) return {};
  const bool fused = place.part != FusedPart::whole;
  check_shape(*tensor, {fused ? fused_total() : size.value}, size.key);
  const TensorTypeInfo& type = tensor_type_info(tensor->type);
  const int64_t first = fused_offset(place.part);
  if (first % type.block_elements != 0 || size.value % type.block_elements != 0)
    fail(ErrorCode::unsupported,
         "{}: tensor '{}' has type {}, wanted F32, F16 or BF16 for a vector", model_.path.string(),
         tensor->name, type.name);
  WeightRef w;
  w.name = with_layer(stem, layer) + std::string(suffix);
  w.out = 1;
  w.in = size.value;
  w.type = tensor->type;
  w.row_stride = w.in / type.block_elements * type.block_bytes;
  w.element_stride = type.block_elements > 1 ? 0 : type.block_bytes;
  w.bytes =
      tensor->bytes.subspan(static_cast<size_t>(first / type.block_elements * type.block_bytes),
                            static_cast<size_t>(w.row_stride));
  return add(w);
}

Linear Binder::linear(std::string_view stem, int layer, const Size& out, const Size& in,
                      Presence bias) {
  Linear l;
  l.weight = matrix(stem, layer, out, in, true);
  if (bias != Presence::absent)
    l.bias = vector(stem, ".bias", layer, out, bias == Presence::present);
  return l;
}

Norm Binder::norm(std::string_view stem, int layer, const Size& size) {
  Norm n;
  n.kind = spec_.norm;
  n.epsilon = spec_.norm_epsilon;
  n.weight_offset = spec_.norm_weight_offset;
  n.weight = vector(stem, ".weight", layer, size, true);
  if (n.kind == NormKind::layer) n.bias = vector(stem, ".bias", layer, size, true);
  return n;
}

// GGUF files of Llama 3 carry the scaling of each frequency as a tensor.
void Binder::scale_ropes() {
  if (spec_.ropes.empty()) return;
  const StoredTensor* tensor = find("rope_freqs.weight", false);
  if (tensor == nullptr) return;
  for (const std::unique_ptr<Rope>& rope : model_.ropes) {
    check_shape(*tensor, {static_cast<int64_t>(rope->inverse_frequency.size())},
                "half the rotated dimensions of a head");
    std::vector<float> factors(rope->inverse_frequency.size());
    if (tensor_type_info(tensor->type).block_elements > 1)
      fail(ErrorCode::unsupported, "{}: tensor '{}' is quantised, wanted F32", model_.path.string(),
           tensor->name);
    decode_elements(tensor->type, tensor->bytes.data(), factors.data(),
                    static_cast<int64_t>(factors.size()));
    for (size_t i = 0; i < factors.size(); ++i) {
      if (!(factors[i] > 0) || !std::isfinite(factors[i]))
        fail(ErrorCode::data_corrupt, "{}: tensor '{}' element {} is {}, wanted a positive number",
             model_.path.string(), tensor->name, i, factors[i]);
      rope->inverse_frequency[i] /= static_cast<double>(factors[i]);
    }
  }
}

void Binder::finish(bool head_is_tied) const {
  if (!missing_.empty())
    fail(ErrorCode::data_corrupt, "{}: {} of the tensors of '{}' missing: {}", model_.path.string(),
         missing_.size(), spec_.config.architecture, name_list(missing_));
  std::vector<std::string> surplus;
  const std::string head = names_.place("output", -1).stem + ".weight";
  for (const StoredTensor& tensor : model_.store->tensors()) {
    if (used_.count(tensor.name) > 0 || names_.is_buffer(tensor.name)) continue;
    if (head_is_tied && tensor.name == head) continue;
    surplus.push_back(tensor.name);
  }
  if (!surplus.empty())
    fail(ErrorCode::unsupported,
         "{}: {} tensors have no place in '{}' as it is configured, and leaving them out would "
         "change the answers: {}",
         model_.path.string(), surplus.size(), spec_.config.architecture, name_list(surplus));
}

}  // namespace

void bind_weights(Model& model, const ModelSpec& spec, const NameMap& names) {
  Binder binder(model, spec, names);
  const ModelConfig& c = spec.config;
  const ModelSpec::Keys& keys = spec.keys;
  const Size hidden{c.hidden_size, keys.hidden_size};
  const Size mlp{c.mlp_size, keys.mlp_size};
  const Size vocabulary{c.vocabulary_size, keys.vocabulary_size};
  const Size head{c.head_size, keys.head_size};
  const Size q{int64_t{c.heads} * c.head_size, fmt::format("{} x {}", keys.heads, keys.head_size)};
  const Size kv{int64_t{c.kv_heads} * c.head_size,
                fmt::format("{} x {}", keys.kv_heads, keys.head_size)};

  Transformer& t = model.transformer;
  t.embedding.tokens = binder.matrix("token_embd", -1, vocabulary, hidden, true);
  t.embedding.scale = spec.embedding_scale;
  if (spec.learned_positions)
    t.embedding.positions = binder.matrix(
        "position_embd", -1, Size{c.context_length, keys.context_length}, hidden, true);

  t.blocks.resize(spec.layers.size());
  t.block_configs.resize(spec.layers.size());
  for (int i = 0; i < c.layers; ++i) {
    BlockWeights& w = t.blocks[static_cast<size_t>(i)];
    w.attn_norm = binder.norm("blk.#.attn_norm", i, hidden);
    w.attn.q = binder.linear("blk.#.attn_q", i, q, hidden, spec.qkv_bias);
    w.attn.k = binder.linear("blk.#.attn_k", i, kv, hidden, spec.qkv_bias);
    w.attn.v = binder.linear("blk.#.attn_v", i, kv, hidden, spec.qkv_bias);
    if (spec.qk_norm) {
      w.attn.q_norm = binder.norm("blk.#.attn_q_norm", i, head);
      w.attn.k_norm = binder.norm("blk.#.attn_k_norm", i, head);
    }
    w.attn_output = binder.linear("blk.#.attn_output", i, hidden, q, spec.output_bias);
    if (spec.post_norms) w.attn_post_norm = binder.norm("blk.#.post_attention_norm", i, hidden);
    w.mlp_norm = binder.norm("blk.#.ffn_norm", i, hidden);
    if (spec.gated_mlp) w.mlp.gate = binder.linear("blk.#.ffn_gate", i, mlp, hidden, spec.mlp_bias);
    w.mlp.up = binder.linear("blk.#.ffn_up", i, mlp, hidden, spec.mlp_bias);
    w.mlp.down = binder.linear("blk.#.ffn_down", i, hidden, mlp, spec.mlp_bias);
    if (spec.post_norms) w.mlp_post_norm = binder.norm("blk.#.post_ffw_norm", i, hidden);

    const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    BlockConfig& config = t.block_configs[static_cast<size_t>(i)];
    config.activation = spec.activation;
    config.attention.heads = c.heads;
    config.attention.kv_heads = c.kv_heads;
    config.attention.head_size = c.head_size;
    config.attention.scale = layer.attention_scale;
    config.attention.window = layer.window;
    if (layer.rope >= 0) config.attention.rope = model.ropes[static_cast<size_t>(layer.rope)].get();
  }

  t.output_norm = binder.norm("output_norm", -1, hidden);
  if (spec.own_head != Presence::absent)
    t.head.weight =
        binder.matrix("output", -1, vocabulary, hidden, spec.own_head == Presence::present);
  const bool tied = !t.head.weight;
  if (tied) t.head.weight = t.embedding.tokens;
  model.config.tied_head = tied;
  binder.scale_ropes();
  binder.finish(tied);
}

}  // namespace strata
