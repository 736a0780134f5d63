#include "model/test_models.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <numbers>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "io/safetensors.h"

namespace strata::testing {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::not_found, "test: cannot read {}", path.string());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

template <typename T>
std::vector<double> read_numbers(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::vector<double> result;
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    result.push_back(static_cast<double>(value));
  }
  return result;
}

std::vector<float> decode(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  decode_elements(tensor.type, tensor.bytes.data(), values.data(), tensor.elements());
  return values;
}

std::vector<float> transpose(const std::vector<float>& x, int64_t rows, int64_t columns) {
  std::vector<float> y(x.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      y[static_cast<size_t>(c * rows + r)] = x[static_cast<size_t>(r * columns + c)];
  return y;
}

// Rows of each head from halves (first half, second half) to pairs (0, h/2, 1, h/2 + 1, ...).
std::vector<float> permute_heads(const std::vector<float>& x, int64_t heads, int64_t columns) {
  std::vector<float> y(x.size());
  const int64_t rows = static_cast<int64_t>(x.size()) / columns;
  const int64_t size = rows / heads;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = r % size;
    const int64_t from = r / size * size + i / 2 + (i % 2) * (size / 2);
    std::copy_n(x.begin() + from * columns, columns, y.begin() + r * columns);
  }
  return y;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Numbers that both formats have, by their names in config.json.
void set_metadata(GgufWriter& writer, const Json& c, const std::string& arch) {
  const auto u32 = [&](const std::string& key, const char* name) {
    if (c.contains(name) && !c.at(name).is_null())
      writer.set(arch + "." + key, GgufValue::of_u32(c.at(name).get<uint32_t>()));
  };
  const auto f32 = [&](const std::string& key, const char* name) {
    if (c.contains(name)) writer.set(arch + "." + key, GgufValue::of_f32(c.at(name).get<float>()));
  };
  writer.set("general.architecture", GgufValue::of_string(arch));
  writer.set("general.name", GgufValue::of_string("twin"));
  for (const char* name : {"vocab_size"}) u32("vocab_size", name);
  for (const char* name : {"hidden_size", "n_embd"}) u32("embedding_length", name);
  for (const char* name : {"num_hidden_layers", "n_layer"}) u32("block_count", name);
  for (const char* name : {"max_position_embeddings", "n_positions"}) u32("context_length", name);
  for (const char* name : {"num_attention_heads", "n_head"}) u32("attention.head_count", name);
  u32("attention.head_count_kv", "num_key_value_heads");
  u32("feed_forward_length", "intermediate_size");
  if (arch == "gpt2")
    writer.set("gpt2.feed_forward_length", GgufValue::of_u32(4 * c.at("n_embd").get<uint32_t>()));
  for (const char* key : {"attention.key_length", "attention.value_length", "rope.dimension_count"})
    u32(key, "head_dim");
  f32("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  f32("attention.layer_norm_epsilon", "layer_norm_epsilon");
  f32("rope.freq_base", "rope_theta");
  f32("rope.freq_base_swa", "rope_local_base_freq");
  if (c.at("model_type") == "mistral" || c.at("model_type") == "gemma3_text")
    u32("attention.sliding_window", "sliding_window");
}

// The frequencies' divisors that converters write for Llama 3 (llama.cpp's rope_freqs.weight).
std::vector<float> llama3_divisors(const Json& scaling, double base, int64_t head_size) {
  const double factor = scaling.at("factor").get<double>();
  const double low = scaling.at("low_freq_factor").get<double>();
  const double high = scaling.at("high_freq_factor").get<double>();
  const double context = scaling.at("original_max_position_embeddings").get<double>();
  std::vector<float> result;
  for (int64_t i = 0; i < head_size; i += 2) {
    const double wave = 2 * std::numbers::pi *
                        std::pow(base, static_cast<double>(i) / static_cast<double>(head_size));
    double divisor = 1;
    if (wave > context / low)
      divisor = factor;
    else if (wave >= context / high) {
      const double smooth = (context / wave - low) / (high - low);
      divisor = 1 / ((1 - smooth) / factor + smooth);
    }
    result.push_back(static_cast<float>(divisor));
  }
  return result;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "strata_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) fail(ErrorCode::internal, "test: mkdtemp failed");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path golden_folder() { return "tests/golden/architectures"; }

const Goldens& goldens() {
  static const Goldens result = [] {
    const Json file = parse_json(read_file(golden_folder() / "cases.json"));
    Goldens g;
    g.tokens = file.at("tokens").get<std::vector<int32_t>>();
    g.positions = file.at("positions").get<std::vector<int32_t>>();
    g.gguf_names = file.at("gguf_names");
    for (const Json& c : file.at("cases"))
      g.cases.push_back(
          {c.at("name").get<std::string>(), c.at("model").get<std::string>(), c.at("changes")});
    return g;
  }();
  return result;
}

const GoldenCase& golden_case(const std::string& name) {
  for (const GoldenCase& c : goldens().cases)
    if (c.name == name) return c;
  fail(ErrorCode::internal, "test: no golden case {}", name);
}

std::vector<double> golden_logits(const std::string& name) {
  return read_numbers<double>(golden_folder() / (name + ".f64"));
}

std::vector<double> golden_logits_f32(const std::string& name) {
  return read_numbers<float>(golden_folder() / (name + ".f32"));
}

Json golden_config(const GoldenCase& c) {
  Json config = parse_json(read_file(golden_folder() / c.model / "config.json"));
  for (const auto& [key, value] : c.changes.items()) config[key] = value;
  return config;
}

void write_hf_folder(const std::filesystem::path& folder, const std::string& model,
                     const Json& config) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump();
  std::filesystem::copy_file(golden_folder() / model / "model.safetensors",
                             folder / "model.safetensors");
}

void write_gguf_twin(const std::filesystem::path& path, const GoldenCase& c,
                     const GgufChange& change) {
  const Json config = golden_config(c);
  const std::string type = config.at("model_type").get<std::string>();
  const std::string arch = type == "gemma3_text" ? "gemma3" : type == "mistral" ? "llama" : type;
  GgufWriter writer;
  set_metadata(writer, config, arch);

  const std::unique_ptr<TensorStore> store =
      open_safetensors(golden_folder() / c.model / "model.safetensors");
  std::vector<std::vector<float>> values;  // the writer does not copy
  values.reserve(store->tensors().size() + 1);
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, std::vector<float> v) {
    values.push_back(std::move(v));
    writer.add_tensor(name, TensorType::f32, std::move(shape),
                      std::as_bytes(std::span(values.back())));
  };
  for (const StoredTensor& tensor : store->tensors()) {
    std::vector<float> v = decode(tensor);
    std::vector<int64_t> shape = tensor.shape;
    const std::string& name = tensor.name;
    if (arch == "gpt2" && shape.size() == 2 && contains(name, ".c_")) {
      v = transpose(v, shape[0], shape[1]);
      std::swap(shape[0], shape[1]);
    }
    if (arch == "llama" && contains(name, "q_proj"))
      v = permute_heads(v, config.at("num_attention_heads").get<int64_t>(),
                        tensor.shape.size() < 2 ? 1 : shape[1]);
    if (arch == "llama" && contains(name, "k_proj"))
      v = permute_heads(v, config.at("num_key_value_heads").get<int64_t>(),
                        tensor.shape.size() < 2 ? 1 : shape[1]);
    if (arch == "gemma3" && contains(name, "norm"))
      for (float& x : v) x += 1;
    add(goldens().gguf_names.at(c.model).at(name).get<std::string>(), shape, std::move(v));
  }

  const Json scaling = config.value("rope_scaling", Json());
  if (scaling.is_object()) {
    const std::string kind = scaling.value("rope_type", scaling.value("type", ""));
    const int64_t head_size =
        config.value("head_dim", config.at("hidden_size").get<int64_t>() /
                                     config.at("num_attention_heads").get<int64_t>());
    if (kind == "llama3") {
      add("rope_freqs.weight", {head_size / 2},
          llama3_divisors(scaling, config.at("rope_theta").get<double>(), head_size));
    } else {
      const auto factor = scaling.at("factor").get<float>();
      writer.set(arch + ".rope.scaling.type", GgufValue::of_string(kind));
      writer.set(arch + ".rope.scaling.factor", GgufValue::of_f32(factor));
      if (kind == "yarn")
        writer.set(
            arch + ".rope.scaling.original_context_length",
            GgufValue::of_u32(scaling.at("original_max_position_embeddings").get<uint32_t>()));
    }
  }
  if (change) change(writer);
  writer.write(path);
}

std::unique_ptr<Model> load_golden(const std::string& name) {
  const GoldenCase& c = golden_case(name);
  const TemporaryFolder folder;  // a mapped file outlives its name
  write_hf_folder(folder.path() / "model", c.model, golden_config(c));
  return load_model(folder.path() / "model");
}

std::vector<double> run(const Model& model, const std::vector<int32_t>& tokens,
                        const std::vector<int32_t>& rows, const RefOptions& options) {
  RefExec exec(options);
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  const SequenceRows sequence{0, static_cast<int32_t>(tokens.size()), 0, -1};
  const Batch batch{tokens, positions, {&sequence, 1}};
  const Tensor hidden = forward_hidden(exec, model.transformer, batch);
  const Tensor logits = forward_logits(exec, model.transformer, hidden, rows);
  std::vector<double> result;
  for (int64_t r = 0; r < logits.rows; ++r)
    result.insert(result.end(), logits.row<double>(r), logits.row<double>(r) + logits.columns);
  return result;
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.size() != b.size() || a.empty()) return kInfinity;
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return kInfinity;
    difference = std::max(difference, std::fabs(a[i] - b[i]));
    size = std::max(size, std::fabs(b[i]));
  }
  if (difference == 0) return 0;
  return size > 0 ? difference / size : kInfinity;
}

}  // namespace strata::testing
