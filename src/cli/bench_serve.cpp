#include "cli/bench_serve.h"

#include <fmt/core.h>
#include <unistd.h>

#include <memory>

#include "base/error.h"
#include "bench/serve_report.h"
#include "bench/step_watch.h"
#include "cli/engine_options.h"

namespace strata::cli {
namespace {

struct ServeBenchFlags {
  GlobalOptions global;
  ServeClientOptions client;
  ServeLimits limits;
  TraceOptions trace;
  std::string trace_file;
  std::string folder;
  std::string name;
  std::vector<std::string> compared;  // NAME=FOLDER of earlier runs
  int64_t requests = 64;
  double rate = 0;
  int64_t prompt = 256, output = 64;
  bool no_ignore_eos = false;
};

std::vector<PlannedCall> plan_of(const ServeBenchFlags& flags) {
  if (!flags.trace_file.empty()) {
    TraceOptions options = flags.trace;
    options.count = flags.requests;
    return read_trace(flags.trace_file, options);
  }
  if (flags.rate > 0)
    return poisson_plan(flags.requests, flags.rate, flags.prompt, flags.output, flags.client.seed);
  return std::vector<PlannedCall>(static_cast<size_t>(flags.requests),
                                  {0, flags.prompt, flags.output});
}

OrderedJson head_of(const ServeBenchFlags& flags) {
  OrderedJson head;
  head["url"] = flags.client.url;
  head["model"] = flags.client.model;
  OrderedJson load;
  if (!flags.trace_file.empty()) {
    load["kind"] = flags.client.clients > 0 ? "closed loop over a trace" : "trace";
    load["trace"] = flags.trace_file;
    load["time_scale"] = flags.trace.time_scale;
    load["length_scale"] = flags.trace.length_scale;
    load["most_prompt"] = flags.trace.most_prompt;
    load["most_output"] = flags.trace.most_output;
    load["skipped"] = flags.trace.first;
  } else {
    load["kind"] = flags.client.clients > 0 ? "closed loop" : "poisson";
    load["prompt_tokens"] = flags.prompt;
    load["output_tokens"] = flags.output;
  }
  if (flags.rate > 0) load["rate"] = flags.rate;
  if (flags.client.clients > 0) load["clients"] = flags.client.clients;
  load["requests"] = flags.requests;
  load["shared_prompt_tokens"] = flags.client.shared_prompt_tokens;
  load["seed"] = flags.client.seed;
  head["load"] = std::move(load);
  return head;
}

// The earlier runs to compare with, told before anything is sent when one cannot be read.
std::vector<NamedSummary> earlier_runs(const ServeBenchFlags& flags) {
  std::vector<NamedSummary> runs;
  for (const std::string& text : flags.compared) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size())
      fail(ErrorCode::invalid_argument, "--compare: got '{}', wanted NAME=FOLDER", text);
    const std::string path = text.substr(at + 1) + "/load_test_results.json";
    const OrderedJson results = parse_ordered_json(read_file(path));
    if (!results.is_object() || !results.contains("summary"))
      fail(ErrorCode::data_corrupt, "{}: not the results of a load test", path);
    runs.push_back({text.substr(0, at), results["summary"]});
  }
  return runs;
}

int serve_command(const ServeBenchFlags& flags) {
  ServeClientOptions client = flags.client;
  client.ignore_eos = !flags.no_ignore_eos;
  if (client.clients == 0 && flags.rate == 0 && flags.trace_file.empty())
    fail(ErrorCode::invalid_argument,
         "bench serve: give --clients N (closed loop), --rate R (Poisson) or --trace FILE");
  const std::vector<PlannedCall> plan = plan_of(flags);
  const bool visible = !flags.global.quiet && isatty(STDERR_FILENO) == 1;
  client.check = stop_if_interrupted;
  client.progress = [&](int64_t ended, int64_t failed) {
    if (visible)
      fmt::print(stderr, "\r\033[K{} of {} calls ended, {} failed", ended, plan.size(), failed);
  };
  std::vector<NamedSummary> runs = earlier_runs(flags);
  StepWatcher watcher(client);
  const std::vector<CallRecord> calls = run_calls(plan, client);
  const std::vector<WatchedStep> steps = watcher.finish();
  if (visible) fmt::print(stderr, "\r\033[K");
  const ServeSummary summary = summarize_calls(calls, flags.limits);
  OrderedJson head = head_of(flags);
  if (!steps.empty())
    head["engine"] = {{"steps", steps.size()}, {"wasted_share", wasted_share(steps)}};
  if (!flags.folder.empty()) {
    write_serve_report(flags.folder, head, plan, calls, flags.limits);
    write_step_report(flags.folder, steps);
    runs.push_back({flags.name.empty() ? flags.client.model : flags.name,
                    summary_json(summary, flags.limits)});
    write_comparison(std::filesystem::path(flags.folder) / "throughput_comparison.png", runs);
  }
  if (flags.global.json) {
    OrderedJson out = head;
    out["summary"] = summary_json(summary, flags.limits);
    print_json(to_json_text(out));
  } else {
    fmt::print("{}", summary_text(summary, flags.limits));
  }
  return summary.completed > 0 ? kDone : kFailed;
}

}  // namespace

void add_bench_serve(CLI::App& bench, Run& run) {
  const auto flags = std::make_shared<ServeBenchFlags>();
  CLI::App& command = *bench.add_subcommand(
      "serve", "load on a running server with /v1/completions, ours or another");
  command.footer(
      "Example: strata bench serve http://127.0.0.1:8080 --model smollm2-135m --clients 32 "
      "--requests 128\n"
      "         strata bench serve URL --model M --trace AzureLLMInferenceTrace_conv.csv "
      "--length-scale 4 --time-scale 2 --requests 500 --out results");
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 30);
  command.add_option("URL", flags->client.url, "http://HOST:PORT")->required();
  command.add_option("--model", flags->client.model, "the model's name in the API")->required();
  command.add_option("--api-key", flags->client.api_key, "sent as a bearer token");
  CLI::Option* clients =
      command
          .add_option("--clients", flags->client.clients,
                      "closed loop: so many clients, each sends its next call when one has ended")
          ->check(CLI::Range(1, 4096));
  command.add_option("--rate", flags->rate, "open loop: calls per second, Poisson")
      ->check(CLI::PositiveNumber)
      ->excludes(clients);
  command.add_option("--requests", flags->requests, "calls in all")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--prompt", flags->prompt, "words (about as many tokens) of a prompt")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--output", flags->output, "tokens of an answer")
      ->check(positive)
      ->capture_default_str();
  command
      .add_option("--shared-prompt", flags->client.shared_prompt_tokens,
                  "the first so many words of all prompts are the same")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--trace", flags->trace_file,
                     "a CSV file with TIMESTAMP,ContextTokens,GeneratedTokens: calls at its times "
                     "with its lengths");
  command.add_option("--time-scale", flags->trace.time_scale, "plays the trace so much faster")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--length-scale", flags->trace.length_scale, "divides the trace's token counts")
      ->check(CLI::PositiveNumber);
  command.add_option("--most-prompt", flags->trace.most_prompt, "clips the trace's prompts")
      ->check(positive);
  command.add_option("--most-output", flags->trace.most_output, "clips the trace's answers")
      ->check(positive);
  command.add_option("--skip", flags->trace.first, "rows of the trace to leave out at its start")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--ttft-limit", flags->limits.ttft_seconds,
                  "seconds to the first text that a good call keeps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--gap-limit", flags->limits.gap_seconds,
                  "seconds between two texts that a good call keeps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_flag("--no-ignore-eos", flags->no_ignore_eos,
                   "do not send ignore_eos, for servers that refuse it");
  command.add_option("--seed", flags->client.seed, "of arrivals and prompts")
      ->capture_default_str();
  command.add_option(
      "--out", flags->folder,
      "folder for load_test_results.json, calls.csv, latency_cdf.png, "
      "throughput.png, throughput_comparison.png; of a strata server also "
      "batch_timeline.png, memory_efficiency.png, engine_load.png, engine_steps.csv");
  command.add_option("--name", flags->name, "of this run in the comparison; default: the model");
  command
      .add_option("--compare", flags->compared,
                  "NAME=FOLDER: an earlier run's --out, to stand in throughput_comparison.png "
                  "(repeatable)")
      ->allow_extra_args(false);
  add_common_options(command, flags->global);
  command.callback([flags, &run] { run = [flags] { return serve_command(*flags); }; });
}

}  // namespace strata::cli
