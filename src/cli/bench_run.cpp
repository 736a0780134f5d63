#include "cli/bench_run.h"

#include <fmt/core.h>
#include <unistd.h>

#include "engine/config_hash.h"

namespace strata::cli {

void add_bench_options(CLI::App& command, BenchRunFlags& flags) {
  command
      .add_option("--probe-window", flags.window_seconds,
                  "seconds of each of the 3 to 10 windows in which a limit is measured")
      ->check(CLI::Range(0.0001, 10.0))
      ->capture_default_str();
  command.add_option("--png", flags.png, "also draw the shares of the limits to this PNG file")
      ->type_name("FILE");
  add_common_options(command, flags.global);
}

void add_threads(CLI::App& command, BenchRunFlags& flags) {
  command.add_option("--threads", flags.engine.threads, "threads; 0: every usable core")
      ->check(CLI::Range(0, 1024));
}

void add_repeats(CLI::App& command, BenchRunFlags& flags) {
  command
      .add_option("--repeats", flags.repeats,
                  "runs that count, after one that warms up; the median is given")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void add_model(CLI::App& command, BenchRunFlags& flags) {
  command.add_option("MODEL", flags.model,
                     "catalogue name, .gguf file or folder; default: the catalogue's");
  add_exec_flags(command, flags.engine);
}

void add_size(CLI::App& command, const char* name, int64_t& value, const char* what) {
  command.add_option(name, value, what)
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
}

Status::Status(bool quiet) : visible_(!quiet && isatty(STDERR_FILENO) == 1) {}

void Status::say(const std::string& what) const {
  if (visible_) fmt::print(stderr, "\r\033[K{}", what);
}

Bench::Bench(const BenchRunFlags& flags)
    : flags_(flags),
      threads_(flags.engine.threads > 0 ? flags.engine.threads : usable_threads()),
      status_(flags.global.quiet) {}

ProbeSamples Bench::probe() const {
  status_.say("measuring this machine's limits");
  ProbeOptions options;
  options.window_seconds = flags_.window_seconds;
  options.check = stop_if_interrupted;
  return with_pool([&](const OpContext& context) { return probe_machine(context, options); });
}

int Bench::report(const std::string& model_hash, const std::vector<Measurement>& measurements,
                  const MachineLimits& limits, const Finish& finish_report) const {
  BenchReport report;
  report.isa = isa_level_name(isa_level());
  report.threads = threads_;
  report.limits = limits;
  const EngineOptions engine = engine_options(flags_.engine);
  report.config_hash =
      config_hash(this_run(model_hash, engine.kv_type, engine.activations, engine.page_tokens));
  for (const Measurement& m : measurements) report.results.push_back(finish(m, limits));
  const std::string text = finish_report ? finish_report(report) : "";
  if (!flags_.png.empty()) report_png(report, flags_.png);
  status_.say("");
  if (flags_.global.json)
    print_json(report_json(report));
  else
    fmt::print("{}{}", report_text(report), text);
  return kDone;
}

}  // namespace strata::cli
