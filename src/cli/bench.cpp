#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "base/error.h"
#include "bench/attention.h"
#include "bench/attention_compare.h"
#include "bench/engine_run.h"
#include "bench/gemm.h"
#include "bench/load.h"
#include "bench/result.h"
#include "bench/roofline.h"
#include "bench/train.h"
#include "cli/bench_kv.h"
#include "cli/bench_run.h"
#include "cli/bench_serve.h"
#include "cli/bench_train_ops.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/train_keys.h"
#include "engine/memory_budget.h"
#include "model/catalogue.h"

namespace strata::cli {
namespace {

constexpr int64_t kGpt2Tokens = 50257;

// The options of all subjects; each declares those it reads.
struct BenchFlags : BenchRunFlags {
  int64_t prompt = 512;
  int64_t context = 1;
  int64_t tokens = 128;
  std::vector<int> streams = {1, 8, 32};
  std::vector<int64_t> rows = {1, 512};
  std::string type;
  int64_t out = 0, in = 0;
  TrainKeys train;
  int64_t vocabulary = 0;
  AttentionCase attention;
  bool standard = false;  // attention: of training, against the textbook's
  std::vector<int64_t> lengths = {512, 1024, 2048, 4096, 8192};
  std::string memory_limit, folder;
};

EngineRunOptions run_options(const BenchFlags& flags, const Bench& bench) {
  EngineRunOptions options;
  options.threads = bench.threads();
  const EngineOptions engine = engine_options(flags.engine);
  options.kv_type = engine.kv_type;
  options.page_tokens = engine.page_tokens;
  options.activations = engine.activations;
  options.strict = flags.engine.strict;
  options.repeats = flags.repeats;
  options.check = stop_if_interrupted;
  options.progress = [](double) { stop_if_interrupted(); };
  return options;
}

int roofline_command(const BenchFlags& flags) {
  const Bench bench(flags);
  const ProbeSamples samples = bench.probe();
  std::vector<Measurement> all;
  const auto add = [&](const char* name, const char* unit, const std::vector<double>& values,
                       const Work& work) {
    Measurement m;
    m.what = "roofline";
    m.params["limit"] = name;
    m.unit = unit;
    m.values = values;
    m.work = work;
    all.push_back(std::move(m));
  };
  // A thousand million bytes or operations: the value is their rate.
  const auto product = [&](const char* name, const char* unit, TensorType type,
                           const std::vector<double>& values) {
    Work work;
    work.add_product(type, 1e9);
    add(name, unit, values, work);
  };
  Work read;
  read.read_bytes = 1e9;
  add("read", "GB/s", samples.read, read);
  product("fp32", "GFLOP/s", TensorType::f32, samples.fp32);
  product("int8, 4-bit weights", "GOP/s", TensorType::q4_1, samples.int8_u4);
  product("int8, 5-bit weights", "GOP/s", TensorType::q5_1, samples.int8_u5);
  product("int8, 6-bit weights", "GOP/s", TensorType::q6_k, samples.int8_u6);
  product("int8, 8-bit weights", "GOP/s", TensorType::q8_0, samples.int8_s8);
  return bench.report("", all, samples.best());
}

TensorType type_named(const std::string& name) {
  std::string known;
  for (int i = 0; i < kTensorTypeCount; ++i) {
    const TensorTypeInfo& info = tensor_type_info(static_cast<TensorType>(i));
    if (CLI::detail::to_lower(name) == CLI::detail::to_lower(std::string(info.name)))
      return info.type;
    known += (known.empty() ? "" : " ") + std::string(info.name);
  }
  fail(ErrorCode::invalid_argument, "--type: got '{}', wanted one of {}", name, known);
}

int gemm_command(const BenchFlags& flags) {
  std::vector<GemmCase> cases;
  if (!flags.type.empty()) {
    for (const int64_t rows : flags.rows)
      cases.push_back({"", "", type_named(flags.type), rows, flags.out, flags.in});
    for (const GemmCase& c : cases) check_case(c);  // told before anything is measured
  }
  const Bench bench(flags);
  return bench.run([&](std::string& model_hash) {
    if (!flags.model.empty()) {
      const auto model = load_model(resolve_model_path(flags.model), {flags.engine.strict});
      model_hash = model->hash;
      cases = model_gemm_cases(*model, flags.rows);
    } else if (cases.empty()) {
      cases = default_gemm_cases(flags.rows);
    }
    std::vector<Measurement> all;
    bench.with_pool([&](const OpContext& context) {
      for (const GemmCase& c : cases) {
        stop_if_interrupted();
        bench.status().say(fmt::format("{} of {}", all.size() + 1, cases.size()));
        all.push_back(measure_gemm(c, context, flags.repeats));
      }
    });
    return all;
  });
}

// Attention of training, flash and standard.
int attention_comparison(const BenchFlags& flags) {
  AttentionComparison c;
  c.heads = flags.attention.heads;
  c.kv_heads = flags.attention.kv_heads;
  c.head_size = flags.attention.head_size;
  c.lengths = flags.lengths;
  c.memory_limit = static_cast<int64_t>(flags.memory_limit.empty()
                                            ? available_memory() / 2
                                            : parse_size(flags.memory_limit, "--memory-limit"));
  if (!flags.folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(flags.folder, error);
    if (error)
      fail(ErrorCode::invalid_argument, "bench attention: {}: cannot be created: {}", flags.folder,
           error.message());
  }
  const Bench bench(flags);
  return bench.run([&](std::string& /*model_hash*/) {
    const AttentionComparisonResult result = bench.with_pool([&](const OpContext& context) {
      return compare_attention(
          c, context, flags.repeats, [&](const std::string& what) { bench.status().say(what); },
          stop_if_interrupted);
    });
    if (!flags.folder.empty()) write_attention_charts(result, flags.folder);
    return attention_measurements(result);
  });
}

int attention_command(const BenchFlags& flags) {
  if (flags.standard) return attention_comparison(flags);
  AttentionCase prompt = flags.attention;
  const EngineOptions engine = engine_options(flags.engine);
  prompt.kv_type = engine.kv_type;
  prompt.page_tokens = engine.page_tokens;
  prompt.queries = prompt.context;
  AttentionCase decode = prompt;
  decode.queries = 1;
  check_case(prompt);  // told before anything is measured
  const Bench bench(flags);
  return bench.run([&](std::string& /*model_hash*/) {
    bench.status().say("attending");
    return bench.with_pool([&](const OpContext& context) {
      return std::vector<Measurement>{
          measure_attention(prompt, context, flags.repeats, stop_if_interrupted),
          measure_attention(decode, context, flags.repeats, stop_if_interrupted)};
    });
  });
}

// prefill, decode and batch: measure(engine, options) on one loaded engine.
template <typename Measure>
int engine_command(const BenchFlags& flags, int64_t tokens, int streams, Measure measure) {
  const Bench bench(flags);
  const std::string model = flags.model.empty() ? default_model() : flags.model;
  resolve_model_path(model);  // a wrong name is told before anything is measured
  return bench.run([&](std::string& model_hash) {
    const EngineRunOptions options = run_options(flags, bench);
    bench.status().say("loading " + model);
    const auto engine = load_for_bench(model, options, tokens, streams);
    model_hash = engine->model().hash;
    bench.status().say("measuring " + model);
    return measure(*engine, options);
  });
}

int prefill_command(const BenchFlags& flags) {
  return engine_command(flags, flags.prompt + 1, 1, [&](Engine& engine, const auto& options) {
    return std::vector<Measurement>{measure_prefill(engine, options, flags.prompt)};
  });
}

int decode_command(const BenchFlags& flags) {
  return engine_command(flags, flags.context + flags.tokens + 1, 1,
                        [&](Engine& engine, const auto& options) {
                          return std::vector<Measurement>{
                              measure_decode(engine, options, flags.context, flags.tokens)};
                        });
}

int batch_command(const BenchFlags& flags) {
  int most = 1;
  for (const int streams : flags.streams) most = std::max(most, streams);
  const int64_t tokens = batch_stream_tokens(most, flags.context, flags.tokens);
  return engine_command(flags, tokens, most, [&](Engine& engine, const auto& options) {
    std::vector<Measurement> all;
    for (const int streams : flags.streams)
      all.push_back(measure_batch(engine, options, streams, flags.context, flags.tokens));
    return all;
  });
}

int load_command(const BenchFlags& flags) {
  const Bench bench(flags);
  const std::string model = flags.model.empty() ? default_model() : flags.model;
  const std::filesystem::path path = resolve_model_path(model);
  return bench.run([&](std::string& model_hash) {
    const EngineRunOptions options = run_options(flags, bench);
    model_hash = load_model(path, {flags.engine.strict})->hash;
    bench.status().say("loading " + model);
    return std::vector<Measurement>{measure_load(model, options),
                                    measure_cold_start(own_program(), model, options)};
  });
}

int train_command(const BenchFlags& flags) {
  const Bench bench(flags);
  return bench.run([&](std::string&) {
    TrainCase c;
    c.config = train_config(flags.train, preset(flags.train.preset));
    c.vocabulary = flags.vocabulary > 0                ? flags.vocabulary
                   : flags.train.preset == "gpt2-124m" ? kGpt2Tokens
                                                       : c.vocabulary;
    c.threads = bench.threads();
    bench.status().say("training");
    return std::vector<Measurement>{measure_train(c, flags.repeats)};
  });
}

// ---- options ----

using Command = int (*)(const BenchFlags&);

// A subject of the command with its own flags; declare(command, flags) adds its options.
template <typename Declare>
void add_subject(CLI::App& bench, Run& run, const char* name, const char* what, const char* example,
                 Command execute, Declare declare) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App& command = *bench.add_subcommand(name, what);
  command.footer(fmt::format("Example: strata bench {}", example));
  declare(command, *flags);
  add_bench_options(command, *flags);
  command.callback([flags, &run, execute] { run = [flags, execute] { return execute(*flags); }; });
}

void declare_gemm(CLI::App& command, BenchFlags& flags) {
  flags.repeats = 7;
  add_threads(command, flags);
  CLI::Option* model = command.add_option(
      "MODEL", flags.model, "whose shapes to take; default: shapes of the catalogue's models");
  command.add_flag("--strict", flags.engine.strict,
                   "unknown keys in the model's metadata are errors");
  command.add_option("--rows", flags.rows, "tokens multiplied at once, one or more numbers")
      ->check(CLI::Range(1, 1 << 20))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  CLI::Option* type = command.add_option("--type", flags.type,
                                         "format of the weights of one matrix, such as Q4_K, F32");
  CLI::Option* out = command.add_option("--out", flags.out, "its outputs")
                         ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  CLI::Option* in = command.add_option("--in", flags.in, "its inputs")
                        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  type->needs(out)->needs(in)->excludes(model);
  out->needs(type);
  in->needs(type);
  add_repeats(command, flags);
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  CLI::App& bench =
      *app.add_subcommand("bench", "measures speed beside this machine's limits, both in one run");
  bench.require_subcommand(1);
  bench.footer(
      "Each figure is the median of its repeats with their median absolute deviation, and the "
      "share "
      "of\nthe limit that binds it: read bandwidth or arithmetic, measured before and after (the "
      "larger\ncounts). An idle machine is needed; docs/benchmarks.md says what is counted.\n"
      "Example: strata bench decode smollm2-135m --json");
  add_subject(bench, run, "roofline", "this machine's limits: read bandwidth, fp32, int8",
              "roofline --json", roofline_command, add_threads);
  add_subject(bench, run, "gemm", "products with weights, alone",
              "gemm --type F32 --rows 4096 --out 1536 --in 384", gemm_command, declare_gemm);
  add_subject(bench, run, "prefill", "reading a prompt, up to the first token",
              "prefill smollm2-135m --prompt 512", prefill_command,
              [](CLI::App& command, BenchFlags& flags) {
                add_model(command, flags);
                add_size(command, "--prompt", flags.prompt, "tokens of the prompt");
                add_repeats(command, flags);
              });
  add_subject(bench, run, "decode", "one stream generating",
              "decode qwen2.5-coder-1.5b --context 4096 --tokens 64", decode_command,
              [](CLI::App& command, BenchFlags& flags) {
                add_model(command, flags);
                add_size(command, "--context", flags.context, "tokens before the generated ones");
                add_size(command, "--tokens", flags.tokens, "tokens to generate");
                add_repeats(command, flags);
              });
  add_subject(bench, run, "batch", "many streams generating together",
              "batch smollm2-135m --streams 1,32 --context 256 --tokens 64", batch_command,
              [](CLI::App& command, BenchFlags& flags) {
                flags.context = 256;
                flags.tokens = 64;
                flags.repeats = 3;
                add_model(command, flags);
                command.add_option("--streams", flags.streams, "streams, one or more numbers")
                    ->check(CLI::Range(1, 256))
                    ->delimiter(',')
                    ->allow_extra_args(false)
                    ->capture_default_str();
                add_size(command, "--context", flags.context, "tokens before the generated ones");
                add_size(command, "--tokens", flags.tokens, "tokens each stream generates");
                add_repeats(command, flags);
              });
  add_subject(bench, run, "attention",
              "attention over a paged cache: a prompt, and one query; flash against standard",
              "attention --heads 8 --head-size 64 --context 4096 --kv-type f32", attention_command,
              [](CLI::App& command, BenchFlags& flags) {
                AttentionCase& a = flags.attention;
                command.add_option("--heads", a.heads, "query heads")
                    ->check(CLI::Range(1, 1024))
                    ->capture_default_str();
                command.add_option("--kv-heads", a.kv_heads, "heads of keys and values")
                    ->check(CLI::Range(1, 1024))
                    ->capture_default_str();
                command.add_option("--head-size", a.head_size, "elements of a head")
                    ->check(CLI::Range(1, 1024))
                    ->capture_default_str();
                CLI::Option* standard = command.add_flag(
                    "--standard", flags.standard,
                    "instead: attention of training, flash against the textbook's with all its "
                    "weights in memory, forward and backward");
                command.add_option("--lengths", flags.lengths, "tokens, one or more numbers")
                    ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
                    ->delimiter(',')
                    ->allow_extra_args(false)
                    ->needs(standard)
                    ->capture_default_str();
                command
                    .add_option("--memory-limit", flags.memory_limit,
                                "a method that needs more at a length is left out there; default: "
                                "half of what is free")
                    ->type_name("SIZE")
                    ->needs(standard);
                command
                    .add_option("--out", flags.folder,
                                "folder for memory_profile.png and speedup_chart.png")
                    ->type_name("FOLDER")
                    ->needs(standard);
                command.add_option("--context", a.context, "tokens")
                    ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
                    ->excludes(standard)
                    ->capture_default_str();
                flags.engine.kv_type = "f32";
                add_threads(command, flags);
                add_kv_flags(command, flags.engine);
                add_repeats(command, flags);
              });
  add_subject(bench, run, "train", "whole training steps on random tokens",
              "train --preset shakespeare --optimizer adamw", train_command,
              [](CLI::App& command, BenchFlags& flags) {
                flags.train.preset = "shakespeare";
                add_train_keys(command, flags.train);
                command
                    .add_option("--vocabulary", flags.vocabulary,
                                "tokens; default: 66, or 50257 of gpt2-124m")
                    ->check(CLI::Range(int64_t{2}, kGpt2Tokens));
                add_threads(command, flags);
                add_repeats(command, flags);
              });
  add_subject(bench, run, "load",
              "opening a model, and a process's start to its first token (file in the page cache)",
              "load smollm2-135m", load_command, [](CLI::App& command, BenchFlags& flags) {
                add_model(command, flags);
                add_repeats(command, flags);
              });
  add_bench_kv(bench, run);
  add_bench_serve(bench, run);
  add_bench_train_ops(bench, run);
}

}  // namespace strata::cli
