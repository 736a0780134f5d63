#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/sha256.h"
#include "cli/command.h"
#include "cli/config_args.h"
#include "cli/engine_options.h"
#include "model/catalogue.h"
#include "server/server.h"

namespace strata::cli {
namespace {

struct ServeFlags {
  GlobalOptions global;
  EngineFlags engine;
  std::string model;
  std::vector<std::string> named_models;
  std::string host = "127.0.0.1";
  int port = 8080;
  int max_running = 64;
  int batch_tokens = 512;
  int queue = 256;
  std::string policy = "priority";
  std::string batching = "continuous";
  bool length_buckets = false;
  double itl_target_ms = 100;
  std::string swap_space = "0", swap_folder;
  std::string prefix_cache = "on";
  std::string shared_prefix_file;
  std::string prompt_cache, prompt_cache_size = "1GiB";
  std::string memory_floor = "64MiB";
  std::string api_key_file;
  std::string admin_key_file;
  std::string model_root;
  std::string model_memory;
  std::string tls_cert, tls_key;
  std::string cors;
  double drain_timeout = 30;
  uint64_t max_body_mib = 32;
  bool lenient = false;
  std::string log = "text";
};

struct NamedPath {
  std::string name;
  std::string path;
};

// MODEL and every --model NAME=PATH, in that order; the default model where none is named.
std::vector<NamedPath> models_to_serve(const ServeFlags& flags) {
  std::vector<NamedPath> out;
  if (!flags.model.empty()) {
    const std::filesystem::path path(flags.model);
    const bool is_path = flags.model.find('/') != std::string::npos || path.extension() == ".gguf";
    std::string name =
        path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
    if (name.empty()) name = path.parent_path().filename().string();
    out.push_back({is_path ? name : flags.model, flags.model});
  }
  for (const std::string& named : flags.named_models) {
    const size_t at = named.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == named.size())
      fail(ErrorCode::invalid_argument, "--model: got '{}', wanted NAME=PATH", named);
    out.push_back({named.substr(0, at), named.substr(at + 1)});
  }
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (out[i].name == out[k].name)
        fail(ErrorCode::invalid_argument, "--model: the name '{}' is given twice", out[i].name);
  if (out.empty()) out.push_back({default_model(), default_model()});
  return out;
}

server::ServerSettings server_settings(const ServeFlags& flags) {
  server::ServerSettings settings;
  settings.http.host = flags.host;
  settings.http.port = static_cast<uint16_t>(flags.port);
  settings.http.max_body_bytes = flags.max_body_mib << 20;
  if (flags.tls_cert.empty() != flags.tls_key.empty())
    fail(ErrorCode::invalid_argument, "--tls-cert and --tls-key go together");
  settings.http.tls_cert_file = flags.tls_cert;
  settings.http.tls_key_file = flags.tls_key;
  if (!flags.api_key_file.empty()) settings.api_keys = server::read_key_file(flags.api_key_file);
  if (!flags.admin_key_file.empty())
    settings.admin_keys = server::read_key_file(flags.admin_key_file);
  settings.model_root =
      flags.model_root.empty() ? models_folder() : std::filesystem::path(flags.model_root);
  settings.cors_origin = flags.cors;
  settings.lenient = flags.lenient;
  settings.drain_timeout_seconds = flags.drain_timeout;
  return settings;
}

EngineOptions serve_options(const ServeFlags& flags) {
  EngineOptions options = engine_options(flags.engine);
  options.max_running = flags.max_running;
  options.batch_tokens = flags.batch_tokens;
  options.queue = flags.queue;
  options.policy = flags.policy == "fcfs"  ? Policy::fcfs
                   : flags.policy == "sjf" ? Policy::sjf
                                           : Policy::priority;
  options.batching = flags.batching == "static"        ? Batching::static_padded
                     : flags.batching == "static-drop" ? Batching::static_dropped
                                                       : Batching::continuous;
  options.length_buckets = flags.length_buckets;
  if (options.length_buckets && options.batching == Batching::continuous)
    fail(ErrorCode::invalid_argument,
         "--length-buckets: only with --batching static or static-drop");
  options.itl_target_seconds = flags.itl_target_ms / 1e3;
  options.swap_bytes = parse_size(flags.swap_space, "--swap-space");
  options.swap_folder = flags.swap_folder;
  options.prefix_cache = flags.prefix_cache == "on";
  if (!flags.shared_prefix_file.empty())
    options.shared_prefix = read_file(flags.shared_prefix_file);
  options.prompt_cache_folder = flags.prompt_cache;
  options.prompt_cache_bytes =
      static_cast<int64_t>(parse_size(flags.prompt_cache_size, "--prompt-cache-size"));
  // Known again by name and key together, wherever they stand in the file next time.
  if (!flags.api_key_file.empty() && !flags.prompt_cache.empty())
    for (const server::ApiKey& key : server::read_key_file(flags.api_key_file))
      options.key_owners.push_back(sha256_hex("prompt cache of " + key.name + ":" + key.key));
  options.memory_floor = parse_size(flags.memory_floor, "--memory-floor");
  return options;
}

// Bytes of a model's weights as its files have them.
uint64_t file_bytes(const std::string& model) {
  const std::filesystem::path path = resolve_model_path(model);
  if (!std::filesystem::is_directory(path)) return std::filesystem::file_size(path);
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(path))
    if (file.path().extension() == ".safetensors") bytes += file.file_size();
  return bytes;
}

server::ModelSettings model_settings(const ServeFlags& flags) {
  server::ModelSettings settings;
  const EngineOptions options = serve_options(flags);
  settings.load = [options](const std::string& path) { return Engine::load(path, options); };
  settings.estimate = [kv = options.kv_memory](const std::string& path) {
    return file_bytes(path) + kv;
  };
  settings.drain_timeout_seconds = flags.drain_timeout;
  if (flags.model_memory.empty()) return settings;
  settings.budget_bytes = parse_size(flags.model_memory, "--model-memory");
  if (options.kv_memory == 0)
    fail(ErrorCode::invalid_argument,
         "--model-memory: give each model's KV cache a size, too (--kv-memory)");
  return settings;
}

// Loads each file once, whatever the number of names it is served under; beyond --model-memory
// models are left to be loaded when somebody asks for them.
std::vector<server::ServedModel> load_models(const ServeFlags& flags,
                                             const server::ModelSettings& settings) {
  std::vector<server::ServedModel> models;
  std::map<std::string, std::shared_ptr<Engine>> loaded;
  uint64_t used = 0;
  for (const NamedPath& model : models_to_serve(flags)) {
    std::shared_ptr<Engine>& engine = loaded[model.path];
    if (engine == nullptr && !models.empty() && settings.budget_bytes > 0 &&
        used + settings.estimate(model.path) > settings.budget_bytes) {
      log_info("{}: beyond --model-memory; loaded when it is asked for", model.name);
      models.push_back({model.name, nullptr, std::time(nullptr), model.path});
      continue;
    }
    if (engine == nullptr) {
      LoadingBar bar(model.name, flags.global.quiet);
      EngineOptions options = serve_options(flags);
      options.progress = [&](double share) {
        bar.show(share);
        stop_if_interrupted();
      };
      engine = Engine::load(model.path, options);
      used += engine->memory_bytes();
    }
    const EngineOptions& in_force = engine->options();
    log_info("{}: context {} tokens, KV pool {} MiB ({}), {} threads, {}", model.name,
             in_force.context, in_force.kv_memory >> 20, flags.engine.kv_type, in_force.threads,
             isa_level_name(isa_level()));
    models.push_back({model.name, engine, std::time(nullptr), model.path});
  }
  return models;
}

int serve_command(const ServeFlags& flags) {
  set_log_format(flags.log == "json" ? LogFormat::json : LogFormat::text);
  if (flags.global.quiet) set_log_level(LogLevel::warning);
  // A wrong flag is told before the port is taken.
  models_to_serve(flags);
  server::ServerSettings settings = server_settings(flags);
  settings.models = model_settings(flags);
  server::Server server(settings);
  server.set_models(load_models(flags, settings.models));
  const bool ipv6 = flags.host.find(':') != std::string::npos;
  fmt::print(stderr, "listening on {}://{}{}{}:{}\n", flags.tls_cert.empty() ? "http" : "https",
             ipv6 ? "[" : "", flags.host, ipv6 ? "]" : "", server.port());
  while (!interrupted())
    std::this_thread::sleep_for(std::chrono::milliseconds(kInterruptPollMilliseconds));
  log_info("shutting down: running requests have {} s to finish; a second signal ends at once",
           flags.drain_timeout);
  server.drain();
  return kDone;
}

}  // namespace

void add_serve(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<ServeFlags>();
  CLI::App& command =
      *app.add_subcommand("serve", "an OpenAI-compatible HTTP server and a chat page");
  command.footer(
      "Every option can be set by STRATA_ and its name in capitals (STRATA_KV_MEMORY=2GiB) and by "
      "a TOML\n"
      "file with its name as key (--config serve.toml); the command line wins.\n"
      "Example: strata serve smollm2-135m --port 8080\n"
      "         curl http://127.0.0.1:8080/v1/chat/completions -d "
      "'{\"model\":\"smollm2-135m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}'");
  command.add_option(
      "MODEL", flags->model,
      "catalogue name, .gguf file or folder; without any --model either: " + default_model());
  command
      .add_option("--model", flags->named_models,
                  "NAME=PATH: a model and its name in the API (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--host", flags->host, "address to listen on")->capture_default_str();
  command.add_option("--port", flags->port, "port; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command.add_option("--max-running", flags->max_running, "answers generated at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--batch-tokens", flags->batch_tokens, "tokens of one step of the model")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command.add_option("--queue", flags->queue, "requests that may wait; more get 429")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--policy", flags->policy,
                  "whose prompt is read next: priority (then first come), fcfs (first come) or sjf "
                  "(fewest tokens left); waiting moves everybody forward")
      ->check(CLI::IsMember({"priority", "fcfs", "sjf"}))
      ->capture_default_str();
  command
      .add_option("--batching", flags->batching,
                  "continuous; or, as a baseline to measure against, static: a batch of "
                  "--max-running ends before the next begins, its rows padded to the longest "
                  "(static-drop: nothing padded); both without a prefix cache")
      ->check(CLI::IsMember({"continuous", "static", "static-drop"}))
      ->capture_default_str();
  command.add_flag("--length-buckets", flags->length_buckets,
                   "static batches hold only prompts of one power of two of tokens");
  command
      .add_option("--itl-target-ms", flags->itl_target_ms,
                  "while answers stream, prompts are read in chunks that keep the gap between two "
                  "tokens below this, or below twice the gap without them")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      .add_option("--swap-space", flags->swap_space,
                  "bytes of a nameless file to which an answer's keys and values may go when pages "
                  "run out, where reading them back is faster than computing them again; 0: always "
                  "computed again")
      ->capture_default_str();
  command.add_option("--swap-folder", flags->swap_folder,
                     "where that file is; default: $TMPDIR, or /var/tmp");
  command
      .add_option("--prefix-cache", flags->prefix_cache,
                  "on: prompts that begin like earlier ones of the same API key are not computed "
                  "again")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  command.add_option("--shared-prefix", flags->shared_prefix_file,
                     "a file with the beginning of prompts (or the system message of chats) that "
                     "all API keys may share in the prefix cache");
  command.add_option("--prompt-cache", flags->prompt_cache,
                     "folder in which prompts and answers of the prefix cache survive a restart");
  command
      .add_option("--prompt-cache-size", flags->prompt_cache_size,
                  "most bytes of a model there; the least recently used is left out")
      ->capture_default_str();
  command
      .add_option("--memory-floor", flags->memory_floor,
                  "with less free memory than this, new requests get 503; 0: never")
      ->capture_default_str();
  command.add_option(
      "--api-key-file", flags->api_key_file,
      "lines name:key[:priority cap[:requests per minute]]; without it anybody may call");
  command.add_option("--admin-key-file", flags->admin_key_file,
                     "lines name:key: who may load and unload models (/admin); without it nobody");
  command.add_option("--model-root", flags->model_root,
                     "folder below which /admin may load models; default: the models folder");
  command.add_option("--model-memory", flags->model_memory,
                     "bytes for all models and their KV caches together: beyond it the model asked "
                     "for least recently gives way, and is loaded again when it is asked for");
  command.add_option("--tls-cert", flags->tls_cert, "PEM certificate chain");
  command.add_option("--tls-key", flags->tls_key, "PEM private key");
  command.add_option("--cors", flags->cors,
                     "origin whose pages may call, such as https://example.org");
  command
      .add_option("--drain-timeout", flags->drain_timeout,
                  "seconds that running requests have after SIGTERM")
      ->check(zero_or_more())
      ->capture_default_str();
  command.add_option("--max-body", flags->max_body_mib, "largest request body in MiB")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_flag("--lenient", flags->lenient,
                   "ignore unknown fields of requests and name them in X-Strata-Ignored");
  command.add_option("--log", flags->log, "log lines on stderr: text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  add_engine_flags(command, flags->engine);
  command.add_flag("--quiet", flags->global.quiet, "only warnings and errors on stderr");
  add_environment_and_config(command);
  command.callback([flags, &run] { run = [flags] { return serve_command(*flags); }; });
}

}  // namespace strata::cli
