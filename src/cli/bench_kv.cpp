#include "cli/bench_kv.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "bench/kv_report.h"
#include "cli/bench_run.h"
#include "model/catalogue.h"

namespace strata::cli {
namespace {

struct KvFlags : BenchRunFlags {
  std::vector<int64_t> lengths = {128, 256, 512, 1024, 2048, 4096, 10'000};
  std::vector<int64_t> windows = {2048, 4096};
  int64_t tokens = 20'000;
  int64_t steps = 10;  // of the memory's growth
  int64_t prompt = 64, compared = 32;
  bool lengths_given = false, tokens_given = false;
  std::string folder;
};

// `wanted`, cut at what the model's context allows beside the repeats; asked for by the user it has
// to fit.
int64_t within_context(const Model& model, const KvFlags& flags, int64_t wanted, bool given,
                       const char* option) {
  const int64_t most = model.config.context_length - flags.repeats;
  if (wanted > most && given)
    fail(ErrorCode::invalid_argument,
         "{}: {} tokens and {} repeats, the context of {} is {} tokens", option, wanted,
         flags.repeats, flags.model, model.config.context_length);
  return std::min(wanted, most);
}

std::vector<int64_t> sampled_lengths(const Model& model, const KvFlags& flags) {
  std::vector<int64_t> out;
  for (const int64_t length : flags.lengths)
    out.push_back(within_context(model, flags, length, flags.lengths_given, "--lengths"));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

KvReport measure(const Model& model, const KvFlags& flags, const Bench& bench) {
  const EngineOptions engine = engine_options(flags.engine);
  KvRunOptions options;
  options.threads = bench.threads();
  options.kv_type = engine.kv_type;
  options.page_tokens = engine.page_tokens;
  options.activations = engine.activations;
  options.repeats = flags.repeats;
  options.check = stop_if_interrupted;
  const std::vector<int64_t> lengths = sampled_lengths(model, flags);
  const int64_t tokens = within_context(model, flags, flags.tokens, flags.tokens_given, "--tokens");
  KvReport report;
  report.model = model.path.stem().string();
  report.kv_type = engine.kv_type;
  bench.status().say("comparing with recomputing");
  report.equality = compare_with_recomputing(model, options, flags.prompt, flags.compared);
  bench.status().say("recomputing");
  report.naive = measure_naive(model, options, lengths);
  bench.status().say("generating with a cache");
  report.cached = measure_cached(model, options, {}, lengths);
  std::vector<int64_t> grid;
  const int64_t steps = std::min(flags.steps, tokens);
  for (int64_t i = 1; i <= steps; ++i) grid.push_back(tokens * i / steps);
  std::vector<KvPolicy> policies = {{}};
  for (const int64_t window : flags.windows) policies.push_back({window, 0});
  for (const KvPolicy& policy : policies) {
    bench.status().say("keeping " + kv_policy_name(policy));
    report.policies.push_back({policy, measure_cached(model, options, policy, grid)});
  }
  return report;
}

int kv_command(KvFlags flags) {
  if (flags.model.empty()) flags.model = default_model();
  const Bench bench(flags);
  const auto model = load_model(resolve_model_path(flags.model), {flags.engine.strict});
  sampled_lengths(*model, flags);  // wrong sizes are told before anything is measured
  within_context(*model, flags, flags.tokens, flags.tokens_given, "--tokens");
  KvReport report;
  return bench.run(
      [&](std::string& model_hash) {
        model_hash = model->hash;
        report = measure(*model, flags, bench);
        return kv_measurements(report, *model);
      },
      [&](BenchReport& out) {
        out.details = kv_details(report);
        if (!flags.folder.empty()) write_kv_report(flags.folder, report_json(out), report);
        return kv_text(report);
      });
}

}  // namespace

void add_bench_kv(CLI::App& bench, Run& run) {
  const auto flags = std::make_shared<KvFlags>();
  CLI::App& command =
      *bench.add_subcommand("kv",
                            "what a cache of keys and values buys and costs: recomputing "
                            "against it, windows, memory");
  command.footer(
      "Example: strata bench kv qwen2.5-coder-0.5b --lengths 128,1024,4096 --tokens 8000 --out kv");
  add_model(command, *flags);
  CLI::Option* lengths =
      command
          .add_option("--lengths", flags->lengths,
                      "tokens of the text at which a token is timed, recomputed and cached; by "
                      "default as many as the context allows")
          ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
          ->delimiter(',')
          ->allow_extra_args(false)
          ->capture_default_str();
  CLI::Option* tokens =
      command
          .add_option("--tokens", flags->tokens,
                      "length to which full cache and windows grow; by default at most the context")
          ->check(CLI::Range(int64_t{16}, int64_t{1} << 30))
          ->capture_default_str();
  command.add_option("--windows", flags->windows, "tokens that windows keep, up to 3 numbers")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->delimiter(',')
      ->expected(0, 3)
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--steps", flags->steps, "lengths at which memory is looked at")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  add_size(command, "--prompt", flags->prompt, "tokens before those that are compared");
  add_size(command, "--compare", flags->compared,
           "tokens generated both ways to compare their logits");
  add_repeats(command, *flags);
  command.add_option("--out", flags->folder,
                     "folder for kv_benchmark.json, profiling_data.csv, speed_comparison.png, "
                     "memory_growth.png, sliding_window_comparison.png");
  add_bench_options(command, *flags);
  command.callback([flags, lengths, tokens, &run] {
    flags->lengths_given = lengths->count() > 0;
    flags->tokens_given = tokens->count() > 0;
    run = [flags] { return kv_command(*flags); };
  });
}

}  // namespace strata::cli
