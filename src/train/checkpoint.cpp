#include "train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
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
  j["format"] = 1;
  j["step"] = s.step;
  j["tokens"] = s.tokens;
  j["seconds"] = s.seconds;
  if (std::isfinite(s.validation_loss)) j["validation_loss"] = s.validation_loss;
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

void save_checkpoint(const std::filesystem::path& out, const TrainState& state,
                     const GptConfig& gpt, const ParameterTable& parameters,
                     const Optimizer& optimizer, const std::string& tokenizer_json, int keep) {
  const std::filesystem::path folder = trainer_folder(out);
  const std::filesystem::path final_path = folder / step_name(state.step);
  const std::filesystem::path temporary = folder / (kUnfinishedPrefix + step_name(state.step));
  std::error_code error;
  // A run is a function of its configuration: this step's checkpoint can only be the same.
  if (std::filesystem::exists(final_path, error)) return;
  std::filesystem::remove_all(temporary, error);
  std::filesystem::create_directories(temporary, error);
  if (error) fail_filesystem(temporary, error);
  UnfinishedFolder guard(temporary);
  write_gpt_folder(temporary, gpt, parameters, tokenizer_json);
  write_optimizer(temporary / "optimizer.safetensors", optimizer);
  ReplaceFile file(temporary / "state.json");
  file.write(state_text(state));
  file.commit();
  std::filesystem::rename(temporary, final_path, error);
  if (error) fail_filesystem(final_path, error);
  guard.finished();

  for (const char* name : kPublished) publish(final_path, out, name);
  std::vector<int64_t> steps = whole_steps(out);
  while (static_cast<int>(steps.size()) > std::max(keep, 1)) {
    std::filesystem::remove_all(folder / step_name(steps.front()), error);
    steps.erase(steps.begin());
  }
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& out) {
  const std::vector<int64_t> steps = whole_steps(out);
  if (steps.empty()) return std::nullopt;
  return trainer_folder(out) / step_name(steps.back());
}

void remove_unfinished(const std::filesystem::path& out) {
  std::error_code error;
  std::vector<std::filesystem::path> found;
  for (const auto& folder : {out, trainer_folder(out)})
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
      if (entry.path().filename().string().rfind(kUnfinishedPrefix, 0) == 0)
        found.push_back(entry.path());
  for (const auto& path : found) std::filesystem::remove_all(path, error);
}

TrainState read_train_state(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / "state.json";
  TrainState s;
  try {
    const Json j = parse_json(read_text(path));
    if (j.at("format") != 1)
      fail(ErrorCode::unsupported, "{}: format {}, wanted 1", path.string(), j.at("format").dump());
    s.step = j.at("step").get<int64_t>();
    s.tokens = j.at("tokens").get<int64_t>();
    s.seconds = j.at("seconds").get<double>();
    s.vocabulary = j.at("vocabulary").get<int64_t>();
    if (j.contains("validation_loss")) s.validation_loss = j.at("validation_loss").get<double>();
    for (const ConfigKey& key : config_keys())
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
  for (const Optimizer::State& s : optimizer.state()) {
    const StoredTensor* t = store->find(s.name);
    if (t == nullptr || t->type != TensorType::f32 || t->bytes.size() != s.values.size_bytes())
      fail(ErrorCode::data_corrupt, "{}: tensor '{}' with {} elements of F32 is not in it",
           path.string(), s.name, s.values.size());
    std::memcpy(s.values.data(), t->bytes.data(), t->bytes.size());
  }
  if (store->tensors().size() != optimizer.state().size())
    fail(ErrorCode::data_corrupt, "{}: has {} tensors, wanted {}", path.string(),
         store->tensors().size(), optimizer.state().size());
  store->check_intact();
}

}  // namespace strata
