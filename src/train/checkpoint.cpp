#include "train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/replace_file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "train/gpt_folder.h"

namespace strata {
namespace {

constexpr const char* kStepPrefix = "step-";
constexpr const char* kUnfinishedPrefix = ".unfinished-";
constexpr const char* kTrainingWeights = "training_weights.safetensors";
// 2: keys ema, dtype, norms-every and early-stop; format 1 has none of them.
constexpr int64_t kFormat = 2;
constexpr const char* kPublished[] = {"config.json", "tokenizer.json", "model.safetensors"};

std::filesystem::path trainer_folder(const std::filesystem::path& out) { return out / "trainer"; }

std::string step_name(int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

// Step numbers of the whole checkpoints, ascending.
std::vector<int64_t> whole_steps(const std::filesystem::path& out) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(trainer_folder(out), error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(kStepPrefix, 0) != 0) continue;
    const std::string digits = name.substr(std::strlen(kStepPrefix));
    if (digits.empty() || digits.size() > 12 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      continue;
    steps.push_back(std::stoll(digits));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

[[noreturn]] void fail_filesystem(const std::filesystem::path& path, const std::error_code& error) {
  fail(ErrorCode::resource_exhausted, "{}: cannot be written: {}", path.string(), error.message());
}

std::string state_text(const TrainState& s) {
  OrderedJson j;
  j["format"] = kFormat;
  j["step"] = s.step;
  j["tokens"] = s.tokens;
  j["seconds"] = s.seconds;
  if (std::isfinite(s.validation_loss)) j["validation_loss"] = s.validation_loss;
  if (s.best_step > 0)
    j["best"] = {{"validation_loss", s.best_loss},
                 {"step", s.best_step},
                 {"validations_since", s.validations_since_best}};
  j["vocabulary"] = s.vocabulary;
  for (const ConfigKey& key : config_keys()) j["config"][key.name] = key.get(s.config);
  return j.dump(1) + "\n";
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::data_corrupt, "{}: cannot be read", path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// OUT/name becomes the checkpoint's file: a second name of the same content where the file system
// has those, else a copy.
void publish(const std::filesystem::path& checkpoint, const std::filesystem::path& out,
             const char* name) {
  const std::filesystem::path temporary = out / (std::string(kUnfinishedPrefix) + name);
  std::error_code error;
  std::filesystem::remove(temporary, error);
  std::filesystem::create_hard_link(checkpoint / name, temporary, error);
  if (error) {
    error.clear();
    std::filesystem::copy_file(checkpoint / name, temporary, error);
  }
  if (!error) std::filesystem::rename(temporary, out / name, error);
  if (error) fail_filesystem(out / name, error);
}

void write_optimizer(const std::filesystem::path& path, const Optimizer& optimizer) {
  std::vector<SafetensorsTensor> tensors;
  for (const Optimizer::State& s : optimizer.state())
    tensors.push_back({s.name,
                       TensorType::f32,
                       {s.parameter->out, s.parameter->in},
                       std::as_bytes(std::span<const float>(s.values))});
  write_safetensors(path, tensors);
}

void write_training_weights(const std::filesystem::path& path, const ParameterTable& parameters) {
  std::vector<SafetensorsTensor> tensors;
  for (const Parameter& p : parameters.all())
    if (p.trainable())
      tensors.push_back(
          {p.name,
           TensorType::f32,
           {p.out, p.in},
           std::as_bytes(std::span<const float>(p.value, static_cast<size_t>(p.size())))});
  write_safetensors(path, tensors);
}

// The named tensor's elements.
void read_tensor(const TensorStore& store, const std::filesystem::path& path,
                 const std::string& name, std::span<float> values) {
  const StoredTensor* t = store.find(name);
  if (t == nullptr || t->type != TensorType::f32 || t->bytes.size() != values.size_bytes())
    fail(ErrorCode::data_corrupt, "{}: tensor '{}' with {} elements of F32 is not in it",
         path.string(), name, values.size());
  std::memcpy(values.data(), t->bytes.data(), t->bytes.size());
}

// Removes what a killed save left.
void remove_unfinished(const std::filesystem::path& out) {
  std::error_code error;
  std::vector<std::filesystem::path> found;
  for (const auto& folder : {out, trainer_folder(out)})
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
      if (entry.path().filename().string().rfind(kUnfinishedPrefix, 0) == 0)
        found.push_back(entry.path());
  for (const auto& path : found) std::filesystem::remove_all(path, error);
}

// Removes the folder unless it has got its name.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(std::filesystem::path path) : path_(std::move(path)) {}
  ~UnfinishedFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;
  void finished() { path_.clear(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

void save_checkpoint(const std::filesystem::path& out, const CheckpointContent& c, int keep) {
  const std::filesystem::path folder = trainer_folder(out);
  const std::filesystem::path final_path = folder / step_name(c.state.step);
  const std::filesystem::path temporary = folder / (kUnfinishedPrefix + step_name(c.state.step));
  std::error_code error;
  // A run is a function of its configuration: this step's checkpoint can only be the same.
  if (std::filesystem::exists(final_path, error)) return;
  std::filesystem::remove_all(temporary, error);
  std::filesystem::create_directories(temporary, error);
  if (error) fail_filesystem(temporary, error);
  UnfinishedFolder guard(temporary);
  {
    const WeightAverage::InUse averaged(c.average);
    write_gpt_folder(temporary, c.gpt, c.parameters, c.tokenizer_json);
  }
  if (c.average != nullptr) write_training_weights(temporary / kTrainingWeights, c.parameters);
  write_optimizer(temporary / "optimizer.safetensors", c.optimizer);
  ReplaceFile file(temporary / "state.json");
  file.write(state_text(c.state));
  file.commit();  // flushes the folder too, and with it the names of what was written before
  std::filesystem::rename(temporary, final_path, error);
  if (error) fail_filesystem(final_path, error);
  guard.finished();
  sync_folder(folder);

  publish_checkpoint(out, c.state.step);
  std::vector<int64_t> steps = whole_steps(out);
  steps.resize(steps.size() - std::min(steps.size(), static_cast<size_t>(std::max(keep, 1))));
  const int64_t best = c.state.config.early_stop > 0 ? c.state.best_step : 0;
  for (const int64_t step : steps)
    if (step != best) std::filesystem::remove_all(folder / step_name(step), error);
}

void publish_checkpoint(const std::filesystem::path& out, int64_t step) {
  for (const char* name : kPublished) publish(trainer_folder(out) / step_name(step), out, name);
  // Before older checkpoints are removed: what OUT names stays on the disk.
  sync_folder(out);
}

std::optional<std::filesystem::path> open_run_folder(const std::filesystem::path& out,
                                                     bool resume) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error)
    fail(ErrorCode::invalid_argument, "train: {}: cannot be created: {}", out.string(),
         error.message());
  remove_unfinished(out);
  std::optional<std::filesystem::path> checkpoint = latest_checkpoint(out);
  if (checkpoint && !resume)
    fail(ErrorCode::invalid_argument,
         "train: {} has a run already ({}); give --resume or another folder", out.string(),
         checkpoint->filename().string());
  if (!checkpoint && resume)
    fail(ErrorCode::invalid_argument, "train: {} has no checkpoint to resume from", out.string());
  return checkpoint;
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& out) {
  const std::vector<int64_t> steps = whole_steps(out);
  if (steps.empty()) return std::nullopt;
  return trainer_folder(out) / step_name(steps.back());
}

TrainState read_train_state(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / "state.json";
  TrainState s;
  try {
    const Json j = parse_json(read_text(path));
    const auto format = j.at("format").get<int64_t>();
    if (format < 1 || format > kFormat)
      fail(ErrorCode::unsupported, "{}: format {}, wanted 1 to {}", path.string(), format, kFormat);
    s.step = j.at("step").get<int64_t>();
    s.tokens = j.at("tokens").get<int64_t>();
    s.seconds = j.at("seconds").get<double>();
    s.vocabulary = j.at("vocabulary").get<int64_t>();
    if (j.contains("validation_loss")) s.validation_loss = j.at("validation_loss").get<double>();
    if (j.contains("best")) {
      const Json& best = j.at("best");
      s.best_loss = best.at("validation_loss").get<double>();
      s.best_step = best.at("step").get<int64_t>();
      s.validations_since_best = best.at("validations_since").get<int64_t>();
    }
    static const std::set<std::string> kSinceFormat2 = {"ema", "dtype", "norms-every",
                                                        "early-stop"};
    for (const ConfigKey& key : config_keys())
      if (format >= 2 || kSinceFormat2.count(key.name) == 0)
        key.set(s.config, j.at("config").at(key.name).get<std::string>());
  } catch (const Json::exception& e) {
    fail(ErrorCode::data_corrupt, "{}: {}", path.string(), e.what());
  } catch (const Error& e) {
    if (e.code() != ErrorCode::invalid_argument) throw;
    fail(ErrorCode::data_corrupt, "{}: {}", path.string(), e.what());
  }
  return s;
}

std::string read_checkpoint_tokenizer(const std::filesystem::path& checkpoint) {
  return read_text(checkpoint / "tokenizer.json");
}

void read_optimizer_state(const std::filesystem::path& checkpoint, const Optimizer& optimizer) {
  const std::filesystem::path path = checkpoint / "optimizer.safetensors";
  const auto store = open_safetensors(path);
  for (const Optimizer::State& s : optimizer.state()) read_tensor(*store, path, s.name, s.values);
  if (store->tensors().size() != optimizer.state().size())
    fail(ErrorCode::data_corrupt, "{}: has {} tensors, wanted {}", path.string(),
         store->tensors().size(), optimizer.state().size());
  store->check_intact();
}

void read_weights(const std::filesystem::path& checkpoint, const ParameterTable& parameters,
                  WeightAverage* average) {
  read_gpt_weights(checkpoint, parameters);
  if (average == nullptr) return;
  average->set_to_parameters();
  const std::filesystem::path path = checkpoint / kTrainingWeights;
  const auto store = open_safetensors(path);
  for (const Parameter& p : parameters.all())
    if (p.trainable()) read_tensor(*store, path, p.name, {p.value, static_cast<size_t>(p.size())});
  store->check_intact();
}

}  // namespace strata
