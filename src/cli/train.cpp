#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "base/cpu.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "bench/explain_attention.h"
#include "cli/command.h"
#include "cli/config_args.h"
#include "cli/engine_options.h"
#include "cli/train_keys.h"
#include "cli/train_sample.h"
#include "cli/train_status.h"
#include "cli/train_ui.h"
#include "kernels/kernel_table.h"
#include "text/tokenizer_json.h"
#include "train/character_tokenizer.h"
#include "train/token_file.h"
#include "train/trainer.h"

namespace strata::cli {
namespace {

struct TrainFlags {
  GlobalOptions global;
  TrainKeys keys;
  std::string data, out;
  bool resume = false;
  bool dry_run = false;
  double max_minutes = 0;
  int keep = 1;
  int threads = 0;
  std::string prompt = "\n";
  int ui = -1;  // port of the live page; -1: none
};

TrainConfig config_of(const TrainFlags& flags) {
  if (!flags.resume) return train_config(flags.keys, preset(flags.keys.preset));
  const std::optional<std::filesystem::path> checkpoint = latest_checkpoint(flags.out);
  if (!checkpoint)
    fail(ErrorCode::invalid_argument, "train: {} has no checkpoint to resume from", flags.out);
  const TrainConfig begun = read_train_state(*checkpoint).config;
  TrainConfig config = train_config(flags.keys, begun);
  for (const ConfigKey& key : config_keys())
    if (key.get(config) != key.get(begun) && !only_reports(begun, key.name))
      fail(ErrorCode::invalid_argument,
           "train: {} is {}, the run in {} has {}; a run is resumed as it began", key.name,
           key.get(config), flags.out, key.get(begun));
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
    j["memory"] = {{"parameters", cost.parameter_bytes}, {"gradients", cost.gradient_bytes},
                   {"optimizer", cost.optimizer_bytes},  {"activations", cost.activation_bytes},
                   {"average", cost.average_bytes},      {"bf16_copies", cost.rounded_bytes},
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
  fmt::print("peak memory      {}: parameters {}, gradients {}, optimizer {}, activations {}{}{}\n",
             megabytes(cost.total_bytes()), megabytes(cost.parameter_bytes),
             megabytes(cost.gradient_bytes), megabytes(cost.optimizer_bytes),
             megabytes(cost.activation_bytes),
             cost.average_bytes > 0 ? ", averages " + megabytes(cost.average_bytes) : "",
             cost.rounded_bytes > 0 ? ", bf16 copies " + megabytes(cost.rounded_bytes) : "");
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

const char* end_word(TrainEnd end) {
  switch (end) {
    case TrainEnd::done:
      return "done";
    case TrainEnd::no_improvement:
      return "no_improvement";
    case TrainEnd::time_is_up:
      return "time_is_up";
    case TrainEnd::stopped:
      return "interrupted";
  }
  return "";
}

int finish(const TrainFlags& flags, Trainer& trainer, TrainEnd end) {
  const TrainState& s = trainer.state();
  const bool finished = end == TrainEnd::done || end == TrainEnd::no_improvement;
  // Of early stopping the best checkpoint is what is left, and not what the trainer holds.
  const bool best_is_older = s.config.early_stop > 0 && finished && s.best_step != s.step;
  const double random_windows = finished && !best_is_older && std::isfinite(s.validation_loss)
                                    ? trainer.validate_random_windows()
                                    : std::numeric_limits<double>::quiet_NaN();
  if (flags.global.json) {
    OrderedJson j;
    j["end"] = end_word(end);
    j["step"] = s.step;
    j["steps"] = s.config.steps;
    j["tokens"] = s.tokens;
    j["seconds"] = s.seconds;
    if (std::isfinite(s.validation_loss)) {
      j["validation_loss"] = s.validation_loss;
      j["perplexity"] = std::exp(s.validation_loss);
    }
    if (s.config.early_stop > 0 && s.best_step > 0)
      j["best"] = {{"step", s.best_step}, {"validation_loss", s.best_loss}};
    if (std::isfinite(random_windows)) j["validation_loss_random_windows"] = random_windows;
    j["out"] = flags.out;
    print_json(to_json_text(j));
  } else {
    std::string line = fmt::format("{} after {} of {} steps, {} tokens, {}",
                                   end == TrainEnd::done             ? "done"
                                   : end == TrainEnd::no_improvement ? "no more improvement"
                                   : end == TrainEnd::stopped        ? "stopped"
                                                                     : "time is up",
                                   s.step, s.config.steps, s.tokens, time_text(s.seconds));
    if (std::isfinite(s.validation_loss))
      line += fmt::format("; validation loss {:.4f}", s.validation_loss);
    if (std::isfinite(random_windows))
      line += fmt::format(" ({:.4f} over random windows)", random_windows);
    fmt::print("{}\n", line);
    if (best_is_older)
      fmt::print("the model is that of step {}, validation loss {:.4f}\n", s.best_step,
                 s.best_loss);
    fmt::print("{}\n", finished
                           ? fmt::format("try: strata run {} -p 'ROMEO:'", flags.out)
                           : fmt::format("go on with: strata train --data {} --out {} --resume",
                                         flags.data, flags.out));
  }
  return end == TrainEnd::stopped ? kInterrupted : kDone;
}

struct PreparedText {
  std::string tokenizer_json;
  std::unique_ptr<Tokenizer> tokenizer;
  TokenData data;
};

// The text as tokens in OUT/tokens.bin, made once in the life of a run; of a dry run in a file that
// has no name when this returns.
PreparedText prepare_text(const TrainFlags& flags, const TrainConfig& config) {
  if (!flags.dry_run) open_run_folder(flags.out, flags.resume);
  const TrainingText text(flags.data, stop_if_interrupted);
  PreparedText p;
  if (flags.resume)
    p.tokenizer_json = read_checkpoint_tokenizer(*latest_checkpoint(flags.out));
  else if (config.tokenizer == "characters")
    p.tokenizer_json = character_tokenizer_json(text.alphabet());
  else
    p.tokenizer_json = read_file(config.tokenizer);
  p.tokenizer = tokenizer_from_json({"tokenizer.json", p.tokenizer_json, {}, {}, {}});
  const std::string key = token_file_key(text.hash(), p.tokenizer_json, config.validation_share);
  std::filesystem::path path = std::filesystem::path(flags.out) / "tokens.bin";
  std::optional<TokenFile> file;
  if (flags.resume) file = open_token_file(path);
  if (file) {
    if (file->key != key)
      fail(ErrorCode::invalid_argument,
           "train: {} is not the text that the run in {} began with ({})", flags.data, flags.out,
           path.string());
    p.data = std::move(file->data);
  } else {
    if (flags.dry_run)
      path = std::filesystem::temp_directory_path() / fmt::format("strata-tokens-{}.bin", getpid());
    const bool visible = !flags.global.quiet && isatty(STDERR_FILENO) == 1;
    p.data =
        write_token_file(path, text, *p.tokenizer, config.validation_share, key, [&](double share) {
          stop_if_interrupted();
          if (visible) fmt::print(stderr, "\rtokenizing: {:.0f} %\033[K", 100 * share);
        });
    if (visible) fmt::print(stderr, "\r\033[K");
    std::error_code ignored;
    if (flags.dry_run) std::filesystem::remove(path, ignored);
  }
  p.data.check_length(config.validation_share, config.context);
  return p;
}

int train_command(const TrainFlags& flags) {
  if (flags.out.empty() && !flags.dry_run)
    fail(ErrorCode::invalid_argument, "train: --out FOLDER is missing (or --dry-run)");
  if (flags.ui >= 0 && flags.dry_run)
    fail(ErrorCode::invalid_argument, "train: --dry-run and --ui exclude each other");
  if (flags.resume && flags.dry_run)
    fail(ErrorCode::invalid_argument, "train: --dry-run and --resume exclude each other");
  const TrainConfig config = config_of(flags);
  const std::string note = dtype_note(config, isa_level());
  if (!note.empty()) log_warning("{}", note);
  PreparedText text = prepare_text(flags, config);

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
  std::unique_ptr<LivePage> page;
  Trainer* running = nullptr;
  options.on_step = [&](const StepReport& r) {
    status->show(r);
    if (page) page->add_step(r);
  };
  options.sample = [&](const Model& model) {
    const std::string sample =
        sample_text(model, *text.tokenizer, {.prompt = flags.prompt, .threads = options.threads});
    status->end();
    if (!flags.global.quiet) fmt::print(stderr, "--- sample ---\n{}\n--------------\n", sample);
    if (page) page->add_sample(running->state().step, sample);
    return sample;
  };
  // The same tokens each time, so that pictures can be compared.
  constexpr int64_t kDrawnTokens = 24;
  const TokenSpan& source = text.data.validation.empty() ? text.data.train : text.data.validation;
  std::vector<int32_t> drawn;
  while (static_cast<int64_t>(drawn.size()) <
         std::min({source.size(), kDrawnTokens, config.context}))
    drawn.push_back(source[static_cast<int64_t>(drawn.size())]);
  options.draw = [&](const Model& model) {
    const auto layers = explain_all_layers(model, *text.tokenizer, drawn);
    write_attention_overview(layers, "Attention to the beginning of the validation text",
                             options.out / "attention_viz.png");
    if (page) page->set_attention(live_attention(layers, running->state().step));
  };
  Trainer trainer(options, std::move(text.data), *text.tokenizer, text.tokenizer_json);
  running = &trainer;
  status = std::make_unique<StatusLine>(flags.global.quiet, trainer.cost().flops_per_token, peak);
  if (flags.dry_run) return dry_run(flags, trainer, peak);
  say_start(flags, config, trainer);
  if (flags.ui >= 0) {
    page = open_live_page(flags.ui, flags.out, trainer);
    log_info("live page: {}", page->url());
  }
  try {
    const TrainEnd end = trainer.run();
    status->end();
    if (page) page->end(end_word(end));
    return finish(flags, trainer, end);
  } catch (...) {
    if (page) page->end("failed");
    throw;
  }
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
  add_train_keys(command, flags->keys);
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
  command
      .add_option(
          "--ui", flags->ui,
          "a live page on this machine: curves, samples, attention; 0 or none: any free port")
      ->expected(0, 1)
      ->default_str("0")
      ->type_name("[PORT]")
      ->check(CLI::Range(0, 65535));
  add_common_options(command, flags->global);
  add_environment_and_config(command);
  command.callback([flags, &run] { run = [flags] { return train_command(*flags); }; });
}

}  // namespace strata::cli
