#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "base/json.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "engine/config_hash.h"
#include "eval/determinism.h"
#include "report/text_table.h"

namespace strata::cli {
namespace {

struct VerifyFlags {
  int others = 63;
  GlobalOptions global;
  EngineFlags engine;
  std::string model;
};

std::string hash_of(const DeterminismReport& report, const EngineOptions& engine) {
  return config_hash(
      this_run(report.model_hash, report.kv_type, engine.activations, engine.page_tokens));
}

std::string json_of(const DeterminismReport& report, const std::string& hash) {
  OrderedJson out;
  out["equal"] = report.equal();
  out["model"] = report.model;
  out["isa"] = report.isa;
  out["threads"] = report.threads;
  out["kv_type"] = kv_type_name(report.kv_type);
  out["config_hash"] = hash;
  out["rows"] = OrderedJson::array();
  for (const DeterminismRow& r : report.rows) {
    OrderedJson row;
    row["what"] = r.what;
    row["how"] = r.how;
    row["requests"] = r.requests;
    row["tokens"] = r.tokens;
    row["logprobs"] = r.logprobs;
    row["preemptions"] = r.preemptions;
    row["swaps"] = r.swaps;
    row["cached_tokens"] = r.cached_tokens;
    row["equal"] = r.difference.empty();
    if (!r.difference.empty()) row["difference"] = r.difference;
    out["rows"].push_back(std::move(row));
  }
  return to_json_text(out);
}

std::string text_of(const DeterminismReport& report, const std::string& hash) {
  TextTable table({{"compared with each alone", Align::left},
                   {"setting", Align::left},
                   {"requests", Align::right},
                   {"tokens", Align::right},
                   {"logprobs", Align::right},
                   {"preempted", Align::right},
                   {"swapped", Align::right},
                   {"cached", Align::right},
                   {"result", Align::left}});
  for (const DeterminismRow& r : report.rows)
    table.add_row({r.what, r.how, fmt::to_string(r.requests), fmt::to_string(r.tokens),
                   fmt::to_string(r.logprobs), fmt::to_string(r.preemptions),
                   fmt::to_string(r.swaps), fmt::to_string(r.cached_tokens),
                   r.difference.empty() ? "same bytes" : r.difference});
  return fmt::format("{}\n{}, {}, KV {}, {} threads, config {}\n{}\n", table.text(), report.model,
                     report.isa, kv_type_name(report.kv_type), report.threads, hash,
                     report.equal() ? "Every request was answered with the same bytes every time."
                                    : "The answers were NOT the same.");
}

int determinism_command(const VerifyFlags& flags) {
  const bool visible = !flags.global.quiet && isatty(STDERR_FILENO) == 1;
  DeterminismOptions options;
  options.check = stop_if_interrupted;
  options.others = flags.others;
  options.progress = [&](const std::string& what) {
    stop_if_interrupted();
    if (visible) fmt::print(stderr, "\r\033[K{}", what);
  };
  const EngineOptions engine = engine_options(flags.engine);
  const DeterminismReport report = verify_determinism(flags.model, engine, options);
  if (visible) fmt::print(stderr, "\r\033[K");
  const std::string hash = hash_of(report, engine);
  if (flags.global.json)
    print_json(json_of(report, hash));
  else
    fmt::print("{}", text_of(report, hash));
  return report.equal() ? kDone : kFailed;
}

}  // namespace

void add_verify(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<VerifyFlags>();
  CLI::App& command = *app.add_subcommand("verify", "checks what strata promises, on this machine");
  command.footer("Example: strata verify determinism smollm2-135m");
  command.require_subcommand(1);
  CLI::App& determinism =
      *command.add_subcommand("determinism",
                              "the same request gives the same bytes: alone, among others, with "
                              "1 to 3 threads, from the "
                              "prefix cache, in chunks, preempted; exit status 1 if not");
  determinism.footer("Example: strata verify determinism smollm2-135m --json");
  determinism.add_option("MODEL", flags->model, "catalogue name, .gguf file or folder")->required();
  determinism.add_option("--others", flags->others, "requests that run beside the compared ones")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_exec_flags(determinism, flags->engine);
  add_common_options(determinism, flags->global);
  determinism.callback([flags, &run] { run = [flags] { return determinism_command(*flags); }; });
}

}  // namespace strata::cli
