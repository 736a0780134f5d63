#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "model/bind.h"
#include "model/key_reader.h"
#include "model/model.h"
#include "model/model_hash.h"
#include "model/name_map.h"
#include "model/spec.h"

namespace strata {
namespace {

void judge_unknown_keys(const ModelSpec& spec, const std::string& file,
                        const LoadOptions& options) {
  if (spec.config.unknown_keys.empty()) return;
  std::string keys;
  for (const std::string& key : spec.config.unknown_keys)
    keys += fmt::format("{}'{}'", keys.empty() ? "" : ", ", key);
  if (options.strict)
    fail(ErrorCode::unsupported, "{}: unknown keys, and --strict asks to know them all: {}", file,
         keys);
  log_warning("{}: unknown keys are taken to be without effect: {}", file, keys);
}

void group_layers(Model& model) {
  for (size_t i = 0; i < model.transformer.block_configs.size(); ++i) {
    AttentionConfig& attention = model.transformer.block_configs[i].attention;
    auto group = std::find_if(model.layer_groups.begin(), model.layer_groups.end(),
                              [&](const LayerGroup& g) { return g.window == attention.window; });
    if (group == model.layer_groups.end())
      group = model.layer_groups.insert(group, LayerGroup{attention.window, {}});
    group->layers.push_back(static_cast<int>(i));
    attention.layer_group = static_cast<int>(group - model.layer_groups.begin());
  }
}

std::unique_ptr<Model> build(const std::filesystem::path& path, ModelSpec spec,
                             std::unique_ptr<TensorStore> store, const NameMap& names,
                             std::string_view config_text) {
  auto model = std::make_unique<Model>();
  model->path = path;
  model->config = spec.config;
  model->store = std::move(store);
  for (Rope& rope : spec.ropes) model->ropes.push_back(std::make_unique<Rope>(rope));
  bind_weights(*model, spec, names);
  group_layers(*model);
  model->hash = model_hash(*model->store, config_text);
  model->store->check_intact();
  return model;
}

std::unique_ptr<Model> load_gguf(const std::filesystem::path& path, const LoadOptions& options) {
  std::unique_ptr<GgufStore> store = open_gguf(path);
  GgufKeys keys(store->metadata());
  ModelSpec spec = read_gguf_spec(keys);
  judge_unknown_keys(spec, keys.file(), options);
  const NameMap names = NameMap::for_gguf(*store);
  return build(path, std::move(spec), std::move(store), names, "");
}

// The text of config.json. Real ones have a few kilobytes.
std::string read_config(const std::filesystem::path& path) {
  constexpr uintmax_t kMaxBytes = 4 << 20;
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error)
    fail(ErrorCode::not_found, "{}: cannot be read ({}): a Hugging Face folder has one",
         path.string(), error.message());
  if (size > kMaxBytes)
    fail(ErrorCode::data_corrupt, "{}: has {} bytes, wanted at most {}", path.string(), size,
         kMaxBytes);
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::unique_ptr<Model> load_folder(const std::filesystem::path& folder,
                                   const LoadOptions& options) {
  const std::filesystem::path config_path = folder / "config.json";
  const std::string text = read_config(config_path);
  Json config;
  try {
    config = parse_json(text);
  } catch (const Error& e) {
    fail(ErrorCode::data_corrupt, "{}: {}", config_path.string(), e.what());
  }
  if (!config.is_object())
    fail(ErrorCode::data_corrupt, "{}: is not a JSON object", config_path.string());
  JsonKeys keys(config, config_path.string());
  ModelSpec spec = read_hf_spec(keys);
  judge_unknown_keys(spec, config_path.string(), options);
  std::unique_ptr<SafetensorsStore> store = open_safetensors(folder);
  const NameMap names = NameMap::for_hugging_face(spec.config.architecture, *store);
  return build(folder, std::move(spec), std::move(store), names, text);
}

}  // namespace

std::unique_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? load_folder(path, options)
                                                      : load_gguf(path, options);
}

}  // namespace strata
