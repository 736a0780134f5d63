#include "train/train_config.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"

namespace strata {
namespace {

[[noreturn]] void bad_value(const std::string& key, const std::string& text,
                            std::string_view want) {
  fail(ErrorCode::invalid_argument, "train: {} is '{}', wanted {}", key, text, want);
}

template <typename T>
ConfigKey number_key(std::string name, std::string help, T TrainConfig::*member) {
  ConfigKey key{name,
                std::move(help),
                [member](const TrainConfig& c) { return fmt::format("{}", c.*member); },
                {}};
  key.set = [name, member](TrainConfig& c, const std::string& text) {
    T value{};
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size() ||
        !std::isfinite(static_cast<double>(value)))
      bad_value(name, text, std::is_integral_v<T> ? "an integer" : "a number");
    c.*member = value;
  };
  return key;
}

ConfigKey flag_key(std::string name, std::string help, bool TrainConfig::*member) {
  ConfigKey key{
      name,
      std::move(help),
      [member](const TrainConfig& c) { return std::string(c.*member ? "true" : "false"); },
      {}};
  key.set = [name, member](TrainConfig& c, const std::string& text) {
    if (text != "true" && text != "false") bad_value(name, text, "true or false");
    c.*member = text == "true";
  };
  return key;
}

// One of `words`; none: any text.
ConfigKey text_key(std::string name, std::string help, std::string TrainConfig::*member,
                   std::vector<std::string> words = {}) {
  std::string list;
  for (const std::string& w : words) list += (list.empty() ? "" : ", ") + w;
  if (!list.empty()) help += " (" + list + ")";
  ConfigKey key{name, std::move(help), [member](const TrainConfig& c) { return c.*member; }, {}};
  key.set = [name, member, words = std::move(words), list](TrainConfig& c,
                                                           const std::string& text) {
    if (!words.empty() && std::find(words.begin(), words.end(), text) == words.end())
      bad_value(name, text, "one of " + list);
    c.*member = text;
  };
  return key;
}

// The words of a key and what each means.
template <typename T>
using Words = std::vector<std::pair<std::string, T>>;

const Words<GptPositions>& position_words() {
  static const Words<GptPositions> words = {{"learned", GptPositions::learned},
                                            {"sinusoidal", GptPositions::sinusoidal},
                                            {"rotary", GptPositions::rotary}};
  return words;
}
const Words<NormKind>& norm_words() {
  static const Words<NormKind> words = {{"layer", NormKind::layer}, {"rms", NormKind::rms}};
  return words;
}
const Words<Activation>& activation_words() {
  static const Words<Activation> words = {{"gelu", Activation::gelu_tanh},
                                          {"gelu-erf", Activation::gelu_erf},
                                          {"silu", Activation::silu},
                                          {"relu", Activation::relu}};
  return words;
}
const Words<OptimizerKind>& optimizer_words() {
  static const Words<OptimizerKind> words = {{"adamw", OptimizerKind::adamw},
                                             {"sgd", OptimizerKind::sgd},
                                             {"lion", OptimizerKind::lion},
                                             {"muon", OptimizerKind::muon}};
  return words;
}
const Words<ScheduleKind>& schedule_words() {
  static const Words<ScheduleKind> words = {{"cosine", ScheduleKind::cosine},
                                            {"linear", ScheduleKind::linear},
                                            {"constant", ScheduleKind::constant},
                                            {"wsd", ScheduleKind::wsd}};
  return words;
}

template <typename T>
std::vector<std::string> names_of(const Words<T>& words) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) names.push_back(name);
  return names;
}
// The key's `set` let nothing else in.
template <typename T>
T meaning_of(const Words<T>& words, const std::string& word) {
  for (const auto& [name, value] : words)
    if (name == word) return value;
  fail(ErrorCode::internal, "train: the word '{}' means nothing here", word);
}

std::vector<ConfigKey> make_keys() {
  using C = TrainConfig;
  return {
      number_key("layers", "transformer blocks", &C::layers),
      number_key("heads", "query heads of a block", &C::heads),
      number_key("kv-heads", "heads of keys and values; 0: as many as heads", &C::kv_heads),
      number_key("hidden", "width of the residual stream", &C::hidden),
      number_key("mlp", "width inside the MLP; 0: 4 hidden, gated 8/3 hidden", &C::mlp),
      number_key("context", "tokens of a sequence", &C::context),
      text_key("positions", "how the model knows where a token is", &C::positions,
               names_of(position_words())),
      text_key("norm", "layer norm or RMS norm", &C::norm, names_of(norm_words())),
      text_key("activation", "of the MLP; gelu is GPT-2's tanh form", &C::activation,
               names_of(activation_words())),
      flag_key("gated", "a gated MLP (with silu: SwiGLU)", &C::gated),
      flag_key("bias", "biases in all projections", &C::bias),
      flag_key("tied", "the head is the embedding", &C::tied),
      number_key("rope-base", "of rotary positions", &C::rope_base),
      number_key("dropout", "probability, at embedding, attention weights and branches",
                 &C::dropout),
      text_key("tokenizer", "characters, or a tokenizer.json", &C::tokenizer),
      number_key("validation-share", "last part of the text, for validation", &C::validation_share),
      number_key("steps", "updates in all", &C::steps),
      number_key("batch", "sequences of a micro-batch", &C::batch),
      number_key("accumulation", "micro-batches of a step", &C::accumulation),
      text_key("optimizer", "update rule", &C::optimizer, names_of(optimizer_words())),
      number_key("lr", "highest learning rate", &C::lr),
      number_key("min-lr", "learning rate of the last step", &C::min_lr),
      text_key("schedule", "of the learning rate", &C::schedule, names_of(schedule_words())),
      number_key("warmup", "steps of linear growth at the start", &C::warmup),
      number_key("decay-share", "share of the steps in which wsd falls", &C::decay_share),
      number_key("beta1", "of adamw, lion and muon", &C::beta1),
      number_key("beta2", "of adamw, lion and muon", &C::beta2),
      number_key("epsilon", "of adamw and muon", &C::epsilon),
      number_key("momentum", "of sgd and muon", &C::momentum),
      number_key("weight-decay", "decoupled, of matrices", &C::weight_decay),
      number_key("clip", "largest norm of the gradient; 0: no limit", &C::clip),
      number_key("smoothing", "of labels", &C::smoothing),
      number_key("ema", "decay of the average of weights that is evaluated and saved; 0: none",
                 &C::ema),
      text_key("dtype", "what products multiply; weights in bf16 are rounded from f32 masters",
               &C::dtype, {"f32", "bf16"}),
      number_key("seed", "of weights, batches and dropout", &C::seed),
      text_key("recompute", "what backward computes again", &C::recompute, {"cheap", "blocks"}),
      number_key("eval-every", "steps from one validation to the next", &C::eval_every),
      number_key("sample-every", "steps from one sample to the next; 0: only at the end",
                 &C::sample_every),
      number_key("save-every", "steps from one checkpoint to the next; 0: at each validation",
                 &C::save_every),
      number_key("norms-every", "steps from one record of norms to the next; 0: at each validation",
                 &C::norms_every),
      number_key("early-stop", "end after so many validations without improvement; 0: never",
                 &C::early_stop),
  };
}

TrainConfig shakespeare_cpu() {
  TrainConfig c;
  c.layers = 4;
  c.heads = 4;
  c.hidden = 128;
  c.context = 64;
  c.batch = 12;
  c.steps = 2000;
  // Llama's block learns faster at the same number of parameters: with its positions and norms
  // alone a loss of 1.62 where GPT-2's block is at 1.77 (docs/results/training.md).
  c.positions = "rotary";
  c.norm = "rms";
  c.activation = "silu";
  c.gated = true;
  c.bias = false;
  // A validation loss of 1.60 in 3 minutes of 2 cores, where AdamW came to 1.90 in a third of that
  // and Muon to 1.74 in less than half (docs/results/training.md).
  c.optimizer = "muon";
  c.lr = 0.005;
  c.min_lr = 0;
  c.warmup = 100;
  c.beta2 = 0.99;
  c.eval_every = 250;
  return c;
}

TrainConfig shakespeare() {
  TrainConfig c = shakespeare_cpu();
  c.layers = 6;
  c.heads = 6;
  c.hidden = 384;
  c.context = 256;
  c.batch = 16;
  // A validation loss of 1.47 in 83 minutes of 2 cores (docs/results/training.md).
  c.steps = 1300;
  c.lr = 0.003;
  c.dropout = 0.15;
  return c;
}

TrainConfig gpt2_124m() {
  TrainConfig c;
  c.layers = 12;
  c.heads = 12;
  c.hidden = 768;
  c.context = 1024;
  c.batch = 4;
  c.accumulation = 8;
  c.steps = 100000;
  c.warmup = 2000;
  c.lr = 6e-4;
  c.min_lr = 6e-5;
  c.eval_every = 1000;
  return c;
}

const std::vector<std::pair<std::string, TrainConfig>>& presets() {
  static const std::vector<std::pair<std::string, TrainConfig>> all = {
      {"tiny", {}},
      {"shakespeare-cpu", shakespeare_cpu()},
      {"shakespeare", shakespeare()},
      {"gpt2-124m", gpt2_124m()}};
  return all;
}

void want(bool condition, std::string_view what) {
  if (!condition) fail(ErrorCode::invalid_argument, "train: {}", what);
}

}  // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = make_keys();
  return keys;
}

TrainConfig preset(std::string_view name) {
  std::string known;
  for (const auto& [key, config] : presets()) {
    if (key == name) return config;
    known += (known.empty() ? "" : ", ") + key;
  }
  fail(ErrorCode::invalid_argument, "train: preset is '{}', wanted one of {}", name, known);
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : presets()) names.push_back(name);
  return names;
}

void check_config(const TrainConfig& c, const std::set<std::string>& given) {
  const auto positive = [](const char* key, int64_t value, int64_t most) {
    if (value < 1 || value > most)
      fail(ErrorCode::invalid_argument, "train: {} is {}, wanted 1 to {}", key, value, most);
  };
  positive("layers", c.layers, 1024);
  positive("heads", c.heads, 1024);
  positive("hidden", c.hidden, 1 << 16);
  positive("context", c.context, 1 << 20);
  positive("batch", c.batch, 1 << 16);
  positive("accumulation", c.accumulation, 1 << 16);
  positive("steps", c.steps, int64_t{1} << 31);
  positive("eval-every", c.eval_every, int64_t{1} << 31);
  want(c.kv_heads >= 0 && c.kv_heads <= c.heads, "kv-heads must be 0 to heads");
  want(c.mlp >= 0 && c.mlp <= 1 << 18, "mlp must be 0 to 262144");
  want(c.batch * c.context <= int64_t{1} << 24,
       "batch x context is over 16777216 tokens; use accumulation");
  want(c.dropout >= 0 && c.dropout < 1, "dropout must be 0 to below 1");
  want(c.validation_share >= 0 && c.validation_share < 1, "validation-share must be 0 to below 1");
  want(c.lr > 0 && c.min_lr >= 0, "lr must be above 0, min-lr at least 0");
  want(c.min_lr <= c.lr || c.schedule == "constant", "min-lr is above lr");
  want(c.warmup >= 0 && c.warmup <= c.steps, "warmup must be 0 to steps");
  want(c.decay_share >= 0 && c.decay_share <= 1, "decay-share must be 0 to 1");
  want(c.beta1 >= 0 && c.beta1 < 1 && c.beta2 >= 0 && c.beta2 < 1,
       "beta1 and beta2 must be 0 to below 1");
  want(c.momentum >= 0 && c.momentum < 1, "momentum must be 0 to below 1");
  want(c.epsilon > 0, "epsilon must be above 0");
  want(c.weight_decay >= 0 && c.clip >= 0, "weight-decay and clip must be at least 0");
  want(c.smoothing >= 0 && c.smoothing < 1, "smoothing must be 0 to below 1");
  want(c.seed >= 0, "seed must be at least 0");
  want(c.sample_every >= 0 && c.save_every >= 0 && c.norms_every >= 0,
       "sample-every, save-every and norms-every must be at least 0");
  want(c.ema >= 0 && c.ema < 1, "ema must be 0 to below 1");
  want(c.early_stop >= 0, "early-stop must be at least 0");
  want(c.early_stop == 0 || c.validation_share > 0,
       "early-stop needs a validation text; validation-share is 0");
  want(c.rope_base > 1, "rope-base must be above 1");

  const auto unused = [&](const char* key, bool used, const std::string& because) {
    if (!used && given.count(key) > 0)
      fail(ErrorCode::invalid_argument, "train: {} has no effect with {}", key, because);
  };
  const std::string optimizer = "optimizer " + c.optimizer;
  unused("momentum", c.optimizer == "sgd" || c.optimizer == "muon", optimizer);
  unused("beta1", c.optimizer != "sgd", optimizer);
  unused("beta2", c.optimizer != "sgd", optimizer);
  unused("epsilon", c.optimizer == "adamw" || c.optimizer == "muon", optimizer);
  unused("min-lr", c.schedule != "constant", "schedule constant");
  unused("decay-share", c.schedule == "wsd", "schedule " + c.schedule);
  unused("rope-base", c.positions == "rotary", "positions " + c.positions);
}

std::string dtype_note(const TrainConfig& config, IsaLevel level) {
  if (config.dtype != "bf16") return "";
  if (level == IsaLevel::avx512_bf16) return "";
  return fmt::format(
      "dtype bf16: weight matrices are rounded to bf16 after each step, but level {} has no bf16 "
      "products: they are computed in f32, so a step is no faster than with f32",
      isa_level_name(level));
}

bool only_reports(const TrainConfig& config, std::string_view key) {
  if (key == "eval-every") return config.early_stop == 0;  // else it decides where the run ends
  return key == "sample-every" || key == "save-every" || key == "norms-every";
}

GptConfig gpt_config(const TrainConfig& c, int64_t vocabulary) {
  GptConfig g;
  g.vocabulary = vocabulary;
  g.layers = static_cast<int>(c.layers);
  g.heads = static_cast<int>(c.heads);
  g.kv_heads = static_cast<int>(c.kv_heads == 0 ? c.heads : c.kv_heads);
  g.hidden = c.hidden;
  g.mlp = c.mlp > 0 ? c.mlp : c.gated ? (c.hidden * 8 / 3 + 31) / 32 * 32 : 4 * c.hidden;
  g.context = c.context;
  g.positions = meaning_of(position_words(), c.positions);
  g.norm = meaning_of(norm_words(), c.norm);
  g.gated = c.gated;
  g.activation = meaning_of(activation_words(), c.activation);
  g.bias = c.bias;
  g.tied = c.tied;
  g.rope_base = c.rope_base;
  return g;
}

Schedule schedule_of(const TrainConfig& c) {
  Schedule s;
  s.kind = meaning_of(schedule_words(), c.schedule);
  s.peak = c.lr;
  s.end = c.min_lr;
  s.warmup = c.warmup;
  s.steps = c.steps;
  s.decay_share = c.decay_share;
  return s;
}

OptimizerOptions optimizer_options(const TrainConfig& c) {
  OptimizerOptions o;
  o.kind = meaning_of(optimizer_words(), c.optimizer);
  o.beta1 = c.beta1;
  o.beta2 = c.beta2;
  o.epsilon = c.epsilon;
  o.momentum = c.momentum;
  o.weight_decay = c.weight_decay;
  return o;
}

}  // namespace strata
