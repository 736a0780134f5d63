#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "engine/config_hash.h"
#include "engine/model_files.h"
#include "engine/serve_exec.h"
#include "eval/perplexity.h"
#include "eval/streaming.h"
#include "report/text_table.h"

namespace strata::cli {
namespace {

struct EvalFlags {
  GlobalOptions global;
  EngineFlags engine;
  std::string model;
  std::string file;
  int64_t context = 512;
  int64_t chunks = 0;
  int64_t tokens = 100'000, segment = 10'000;  // streaming
};

// A line on stderr with the share done and the time left; only on a terminal.
class Progress {
 public:
  Progress(std::string what, bool quiet)
      : what_(std::move(what)), visible_(!quiet && isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (visible_) fmt::print(stderr, "\r\033[K");
  }
  void show(double share) {
    if (!visible_ || share <= 0) return;
    const double passed = std::chrono::duration<double>(Clock::now() - begin_).count();
    fmt::print(stderr, "\r{}: {:3.0f} %, {:.0f} s left \033[K", what_, share * 100,
               passed / share - passed);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool visible_;
  Clock::time_point begin_ = Clock::now();
};

int perplexity_command(const EvalFlags& flags) {
  const std::string text = read_file(flags.file);
  const auto model = load_model(resolve_model_path(flags.model), {flags.engine.strict});
  const ModelFiles files = load_model_files(*model);
  const std::vector<TokenId> tokens = files.tokenizer->encode(text);

  ServeExecOptions options;
  options.threads = flags.engine.threads;
  const EngineOptions engine = engine_options(flags.engine);
  options.kv_type = engine.kv_type;
  options.page_tokens = engine.page_tokens;
  options.activations = engine.activations;
  options.context = flags.context;
  options.first_token = files.tokenizer->specials().first();
  ServeExec exec(*model, options);
  Progress progress("perplexity", flags.global.quiet);
  PerplexityOptions scoring;
  scoring.context = flags.context;
  scoring.chunks = flags.chunks;
  scoring.first_token = options.first_token;
  scoring.progress = [&](double share) {
    progress.show(share);
    stop_if_interrupted();
  };
  const PerplexityResult result = perplexity(exec, *model, tokens, scoring);
  if (flags.global.json) {
    OrderedJson out;
    out["perplexity"] = result.perplexity;
    out["nll"] = result.nll;
    out["stderr"] = result.standard_error;
    out["tokens"] = result.tokens;
    out["isa"] = isa_level_name(exec.isa());
    out["kv_type"] = flags.engine.kv_type;
    out["activations"] = flags.engine.activations;
    out["config_hash"] = config_hash(
        this_run(model->hash, options.kv_type, options.activations, options.page_tokens));
    print_json(to_json_text(out));
  } else {
    fmt::print(
        "perplexity {:.4f} +- {:.4f} over {} tokens (windows of {}, {}, KV {}, {} "
        "activations)\n",
        result.perplexity, result.standard_error, result.tokens, flags.context,
        isa_level_name(exec.isa()), flags.engine.kv_type, flags.engine.activations);
  }
  return kDone;
}

OrderedJson json_of(const StreamingSegment& s) {
  OrderedJson out;
  out["first"] = s.first;
  out["tokens"] = s.tokens;
  out["nll"] = s.nll;
  out["perplexity"] = s.perplexity;
  out["kv_bytes"] = s.held_bytes;
  out["kv_pages"] = s.pages;
  out["resident_bytes"] = s.resident_bytes;
  return out;
}

int streaming_command(const EvalFlags& flags) {
  const std::string text = read_file(flags.file);
  const auto model = load_model(resolve_model_path(flags.model), {flags.engine.strict});
  const ModelFiles files = load_model_files(*model);
  std::vector<TokenId> tokens = files.tokenizer->encode(text);
  if (static_cast<int64_t>(tokens.size()) > flags.tokens)
    tokens.resize(static_cast<size_t>(flags.tokens));

  StreamingOptions scoring;
  scoring.segment = flags.segment;
  const EngineOptions engine = engine_options(flags.engine);
  ServeExecOptions options;
  options.threads = engine.threads;
  options.kv_type = engine.kv_type;
  options.page_tokens = engine.page_tokens;
  options.kv_policy = engine.kv_policy;
  options.activations = engine.activations;
  options.kv_memory = engine.kv_memory;
  options.context = static_cast<int64_t>(tokens.size()) + 1;
  options.max_sequences = 1;
  options.step_rows = scoring.step_rows;
  options.first_token = files.tokenizer->specials().first();
  ServeExec exec(*model, options);
  Progress progress("streaming", flags.global.quiet);
  scoring.progress = [&](double share) {
    progress.show(share);
    stop_if_interrupted();
  };
  const std::vector<StreamingSegment> segments =
      streaming_perplexity(exec, *model, tokens, scoring);
  if (flags.global.json) {
    OrderedJson out;
    out["kv_policy"] = kv_policy_name(options.kv_policy);
    out["kv_type"] = flags.engine.kv_type;
    out["isa"] = isa_level_name(exec.isa());
    out["config_hash"] = config_hash(
        this_run(model->hash, options.kv_type, options.activations, options.page_tokens));
    out["segments"] = OrderedJson::array();
    for (const StreamingSegment& s : segments) out["segments"].push_back(json_of(s));
    print_json(to_json_text(out));
    return kDone;
  }
  TextTable table({{"tokens", Align::right},
                   {"perplexity", Align::right},
                   {"KV pages", Align::right},
                   {"KV MiB", Align::right},
                   {"process MiB", Align::right}});
  for (const StreamingSegment& s : segments)
    table.add_row({fmt::format("{} to {}", s.first, s.first + s.tokens - 1),
                   fmt::format("{:.3f}", s.perplexity), fmt::to_string(s.pages),
                   fmt::format("{:.2f}", static_cast<double>(s.held_bytes) / 1048576.0),
                   fmt::format("{:.1f}", static_cast<double>(s.resident_bytes) / 1048576.0)});
  fmt::print("{}", table.text());
  return kDone;
}

}  // namespace

void add_eval(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App& command = *app.add_subcommand("eval", "measures a model");
  command.footer(
      "Example: strata eval smollm2-135m perplexity --file wikitext2-test.txt --context 512 "
      "--chunks 20");
  command.add_option("MODEL", flags->model, "catalogue name, .gguf file or folder")->required();
  command.require_subcommand(1);
  CLI::App& perplexity = *command.add_subcommand("perplexity",
                                                 "of a text, scored in windows as llama-perplexity "
                                                 "does: the second half of each window counts");
  perplexity.footer(
      "Example: strata eval smollm2-135m perplexity --file wikitext2-test.txt --chunks 20");
  perplexity.add_option("--file", flags->file, "the text")->required();
  perplexity.add_option("--context", flags->context, "tokens of a window")
      ->check(CLI::Range(int64_t{4}, int64_t{1} << 30))
      ->capture_default_str();
  perplexity.add_option("--chunks", flags->chunks, "windows to score; 0: all")
      ->check(zero_or_more());
  add_exec_flags(perplexity, flags->engine);
  add_common_options(perplexity, flags->global);
  CLI::App& streaming = *command.add_subcommand(
      "streaming",
      "of one long text that never begins anew, under a KV policy, stretch by stretch");
  streaming.footer(
      "Example: strata eval smollm2-135m streaming --file wikitext2-test.txt --kv-policy "
      "sinks=4,window=508 --tokens 100000");
  streaming.add_option("--file", flags->file, "the text")->required();
  streaming.add_option("--tokens", flags->tokens, "tokens of it")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30))
      ->capture_default_str();
  streaming.add_option("--segment", flags->segment, "tokens of a stretch")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  add_kv_policy_flag(streaming, flags->engine);
  add_exec_flags(streaming, flags->engine);
  add_common_options(streaming, flags->global);
  streaming.callback([flags, &run] { run = [flags] { return streaming_command(*flags); }; });
  perplexity.callback([flags, &run] { run = [flags] { return perplexity_command(*flags); }; });
}

}  // namespace strata::cli
