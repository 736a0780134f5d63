#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <set>

#include "base/cpu.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/config_args.h"
#include "cli/engine_options.h"
#include "cli/train_sample.h"
#include "kernels/kernel_table.h"
#include "text/tokenizer_json.h"
#include "train/character_tokenizer.h"
#include "train/trainer.h"

namespace strata::cli {
namespace {

struct TrainFlags {
  GlobalOptions global;
  std::string preset = "tiny";
  std::string data, out;
  bool resume = false;
  bool dry_run = false;
  double max_minutes = 0;
  int keep = 1;
  int threads = 0;
  std::string prompt = "\n";
  std::map<std::string, std::string> given;  // keys of the configuration, as text
};

// Keys that change no result: they may differ from the checkpoint's when a run goes on.
const std::set<std::string> kReportKeys = {"eval-every", "sample-every", "save-every"};

TrainConfig config_of(const TrainFlags& flags) {
  TrainConfig config = preset(flags.preset);
  std::optional<std::filesystem::path> checkpoint;
  if (flags.resume) {
    checkpoint = latest_checkpoint(flags.out);
    if (!checkpoint)
      fail(ErrorCode::invalid_argument, "train: {} has no checkpoint to resume from", flags.out);
    config = read_train_state(*checkpoint).config;
  }
  std::set<std::string> names;
  for (const ConfigKey& key : config_keys()) {
    const auto it = flags.given.find(key.name);
    if (it == flags.given.end()) continue;
    names.insert(key.name);
    const std::string before = key.get(config);
    key.set(config, it->second);
    if (checkpoint && kReportKeys.count(key.name) == 0 && key.get(config) != before)
      fail(ErrorCode::invalid_argument,
           "train: {} is {}, the run in {} has {}; a run is resumed as it began", key.name,
           key.get(config), flags.out, before);
  }
  check_config(config, names);
  return config;
}

// Of multiply-adds in registers on all threads: what a step is measured against.
double measure_fma_peak(int threads) {
  constexpr int64_t kIterations = 1 << 15;
  ThreadPool pool(threads);
  const ProbeFunction probe = kernel_table(isa_level()).probe->fp32;
  double best = 0;
  for (int window = 0; window < 6; ++window) {
    std::vector<int64_t> operations(static_cast<size_t>(threads));
    const auto begin = std::chrono::steady_clock::now();
    pool.run([&](int i) {
      for (int repeat = 0; repeat < 20; ++repeat)
        operations[static_cast<size_t>(i)] += probe(kIterations);
    });
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    double sum = 0;
    for (const int64_t n : operations) sum += static_cast<double>(n);
    best = std::max(best, sum / passed.count());
  }
  return best;
}

std::string time_text(double seconds) {
  const auto s = static_cast<int64_t>(seconds);
  if (s >= 3600) return fmt::format("{}h {:02}m", s / 3600, s / 60 % 60);
  return s >= 60 ? fmt::format("{}m {:02}s", s / 60, s % 60) : fmt::format("{}s", s);
}

// One line on stderr: rewritten on a terminal, else one per validation.
class StatusLine {
 public:
  StatusLine(bool quiet, double flops_per_token, double peak)
      : quiet_(quiet),
        terminal_(isatty(STDERR_FILENO) == 1),
        flops_per_token_(flops_per_token),
        peak_(peak) {}
  ~StatusLine() { end(); }

  void show(const StepReport& r) {
    const bool validated = std::isfinite(r.validation_loss);
    if (validated) validation_ = r.validation_loss;
    if (quiet_) return;
    const auto now = std::chrono::steady_clock::now();
    const bool due = terminal_ && now - shown_ > std::chrono::milliseconds(250);
    if (!validated && !due && r.step != r.steps) return;
    shown_ = now;
    std::string line = fmt::format("step {}/{}  loss {:.4f}", r.step, r.steps, r.loss);
    if (std::isfinite(validation_))
      line += fmt::format("  val {:.4f}  ppl {:.2f}", validation_, std::exp(validation_));
    line += fmt::format("  lr {:.2e}  |g| {:.3f}  {:.0f} tok/s  {:.0f} % of FMA peak  {} left",
                        r.learning_rate, r.gradient_norm, r.tokens_per_second,
                        100 * r.tokens_per_second * flops_per_token_ / peak_,
                        time_text(r.seconds_left));
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line,
               terminal_ ? (validated ? "\033[K\n" : "\033[K") : "\n");
    open_ = terminal_ && !validated;
  }
  // Leaves the line so that others can print.
  void end() {
    if (open_) fmt::print(stderr, "\n");
    open_ = false;
  }

 private:
  bool quiet_, terminal_;
  double flops_per_token_, peak_;
  double validation_ = std::numeric_limits<double>::quiet_NaN();
  bool open_ = false;
  std::chrono::steady_clock::time_point shown_;
};

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

int dry_run(const TrainFlags& flags, Trainer& trainer, double peak) {
  const TrainCost cost = trainer.cost();
  constexpr int kSteps = 3;  // the first warms up
  double seconds = 0;
  for (int i = 0; i < kSteps; ++i) {
    stop_if_interrupted();
    const auto begin = std::chrono::steady_clock::now();
    trainer.step_once();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (i > 0) seconds += passed.count() / (kSteps - 1);
  }
  const double rate = static_cast<double>(cost.tokens_per_step) / seconds;
  const double share = rate * cost.flops_per_token / peak;
  const double step_flops = cost.flops_per_token * static_cast<double>(cost.tokens_per_step);
  if (flags.global.json) {
    OrderedJson j;
    j["parameters"] = cost.parameters;
    j["trainable"] = cost.trainable;
    j["tokens_per_step"] = cost.tokens_per_step;
    j["flops_per_step"] = step_flops;
    j["memory"] = {{"parameters", cost.parameter_bytes},
                   {"gradients", cost.gradient_bytes},
                   {"optimizer", cost.optimizer_bytes},
                   {"activations", cost.activation_bytes},
                   {"total", cost.total_bytes()}};
    j["seconds_per_step"] = seconds;
    j["tokens_per_second"] = rate;
    j["of_fma_peak"] = share;
    print_json(to_json_text(j));
    return kDone;
  }
  fmt::print("parameters       {} ({} trainable)\n", cost.parameters, cost.trainable);
  fmt::print("a step           {} tokens, {:.2f} GFLOP by 6N\n", cost.tokens_per_step,
             step_flops / 1e9);
  fmt::print("peak memory      {}: parameters {}, gradients {}, optimizer {}, activations {}\n",
             megabytes(cost.total_bytes()), megabytes(cost.parameter_bytes),
             megabytes(cost.gradient_bytes), megabytes(cost.optimizer_bytes),
             megabytes(cost.activation_bytes));
  fmt::print("time of a step   {:.3f} s, {:.0f} tokens/s, {:.0f} % of the FMA peak\n", seconds,
             rate, 100 * share);
  fmt::print("the whole run    {}\n",
             time_text(seconds * static_cast<double>(trainer.state().config.steps)));
  return kDone;
}

void say_start(const TrainFlags& flags, const TrainConfig& config, const Trainer& trainer) {
  if (flags.global.quiet) return;
  const GptLayout layout = gpt_layout(gpt_config(config, trainer.state().vocabulary));
  log_info("{} parameters, {} tokens in the vocabulary, layout: {}",
           trainer.model().parameter_count, trainer.state().vocabulary,
           layout == GptLayout::gpt2    ? "GPT-2 (transformers loads it)"
           : layout == GptLayout::llama ? "Llama (transformers loads it)"
                                        : "strata_gpt (only strata loads this combination)");
  if (trainer.state().step > 0) log_info("going on after step {}", trainer.state().step);
}

int finish(const TrainFlags& flags, Trainer& trainer, TrainEnd end) {
  const TrainState& s = trainer.state();
  const bool done = end == TrainEnd::done;
  const double random_windows = done && std::isfinite(s.validation_loss)
                                    ? trainer.validate_random_windows()
                                    : std::numeric_limits<double>::quiet_NaN();
  if (flags.global.json) {
    OrderedJson j;
    j["end"] = done ? "done" : end == TrainEnd::stopped ? "interrupted" : "time_is_up";
    j["step"] = s.step;
    j["steps"] = s.config.steps;
    j["tokens"] = s.tokens;
    j["seconds"] = s.seconds;
    if (std::isfinite(s.validation_loss)) {
      j["validation_loss"] = s.validation_loss;
      j["perplexity"] = std::exp(s.validation_loss);
    }
    if (std::isfinite(random_windows)) j["validation_loss_random_windows"] = random_windows;
    j["out"] = flags.out;
    print_json(to_json_text(j));
  } else {
    std::string line = fmt::format("{} after {} of {} steps, {} tokens, {}",
                                   done                       ? "done"
                                   : end == TrainEnd::stopped ? "stopped"
                                                              : "time is up",
                                   s.step, s.config.steps, s.tokens, time_text(s.seconds));
    if (std::isfinite(s.validation_loss))
      line += fmt::format("; validation loss {:.4f}", s.validation_loss);
    if (std::isfinite(random_windows))
      line += fmt::format(" ({:.4f} over random windows)", random_windows);
    fmt::print("{}\n", line);
    fmt::print("{}\n", done ? fmt::format("try: strata run {} -p 'ROMEO:'", flags.out)
                            : fmt::format("go on with: strata train --data {} --out {} --resume",
                                          flags.data, flags.out));
  }
  return end == TrainEnd::stopped ? kInterrupted : kDone;
}

int train_command(const TrainFlags& flags) {
  if (flags.out.empty() && !flags.dry_run)
    fail(ErrorCode::invalid_argument, "train: --out FOLDER is missing (or --dry-run)");
  if (flags.resume && flags.dry_run)
    fail(ErrorCode::invalid_argument, "train: --dry-run and --resume exclude each other");
  const TrainConfig config = config_of(flags);
  const std::string text = read_training_text(flags.data);
  std::string tokenizer_json;
  if (flags.resume)
    tokenizer_json = read_checkpoint_tokenizer(*latest_checkpoint(flags.out));
  else if (config.tokenizer == "characters")
    tokenizer_json = character_tokenizer_json(text);
  else
    tokenizer_json = read_file(config.tokenizer);
  const std::unique_ptr<Tokenizer> tokenizer =
      tokenizer_from_json({"tokenizer.json", tokenizer_json, {}, {}, {}});

  TrainerOptions options;
  options.config = config;
  if (!flags.dry_run) options.out = flags.out;
  options.resume = flags.resume;
  options.max_minutes = flags.max_minutes;
  options.keep = flags.keep;
  options.threads = flags.threads > 0 ? flags.threads : usable_threads();
  options.stop = interrupted;
  const double peak = measure_fma_peak(options.threads);
  std::unique_ptr<StatusLine> status;
  options.on_step = [&](const StepReport& r) { status->show(r); };
  options.sample = [&](const Model& model) {
    const std::string sample =
        sample_text(model, *tokenizer, {.prompt = flags.prompt, .threads = options.threads});
    status->end();
    if (!flags.global.quiet) fmt::print(stderr, "--- sample ---\n{}\n--------------\n", sample);
    return sample;
  };
  Trainer trainer(options,
                  make_token_data(text, *tokenizer, config.validation_share, config.context),
                  *tokenizer, tokenizer_json);
  status = std::make_unique<StatusLine>(flags.global.quiet, trainer.cost().flops_per_token, peak);
  if (flags.dry_run) return dry_run(flags, trainer, peak);
  say_start(flags, config, trainer);
  const TrainEnd end = trainer.run();
  status->end();
  return finish(flags, trainer, end);
}

}  // namespace

void add_train(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App& command = *app.add_subcommand("train", "trains a GPT from nothing on a text");
  command.footer(
      "The result is a Hugging Face folder; run, chat, serve and eval take it.\n"
      "Example: strata train --preset shakespeare-cpu --data tinyshakespeare.txt --out gpt");
  command.add_option("--data", flags->data, "a text file, or a folder of .txt files")
      ->type_name("PATH")
      ->required();
  command.add_option("--out", flags->out, "folder of the result and the checkpoints")
      ->type_name("FOLDER");
  command.add_option("--preset", flags->preset, "the configuration other keys change")
      ->check(CLI::IsMember(preset_names()))
      ->capture_default_str();
  command.add_flag("--resume", flags->resume, "go on from the newest checkpoint, bit for bit");
  command.add_flag("--dry-run", flags->dry_run,
                   "print parameters, operations, memory and the time of a step, and end");
  command
      .add_option("--max-minutes", flags->max_minutes,
                  "end this run after so long, with a checkpoint; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--keep", flags->keep, "checkpoints to keep")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--threads", flags->threads, "threads; 0: every usable core")
      ->check(CLI::Range(0, 1024));
  command.add_option("--prompt", flags->prompt, "what samples begin with");
  for (const ConfigKey& key : config_keys())
    command
        .add_option_function<std::string>(
            "--" + key.name,
            [flags, name = key.name](const std::string& text) { flags->given[name] = text; },
            key.help)
        ->group("Configuration (defaults by preset)")
        ->type_name("VALUE");
  add_common_options(command, flags->global);
  add_environment_and_config(command);
  command.callback([flags, &run] { run = [flags] { return train_command(*flags); }; });
}

}  // namespace strata::cli
