#include "cli/engine_options.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cctype>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace strata::cli {

void add_exec_flags(CLI::App& command, EngineFlags& flags) {
  command.add_option("--threads", flags.threads, "threads; 0: every usable core")
      ->check(CLI::Range(0, 1024));
  add_kv_flags(command, flags);
  command
      .add_option("--activations", flags.activations,
                  "what quantised weights multiply: int8, or int8x2: nearly exact activations, at "
                  "about half the speed")
      ->check(CLI::IsMember({"int8", "int8x2"}))
      ->capture_default_str();
  command.add_flag("--strict", flags.strict, "unknown keys in the model's metadata are errors");
}

void add_kv_flags(CLI::App& command, EngineFlags& flags) {
  command
      .add_option("--kv-type", flags.kv_type,
                  "number format of the KV cache: f16, bf16, f32, q8 or q4")
      ->check(CLI::IsMember(kv_type_names()))
      ->capture_default_str();
  command
      .add_option("--page-size", flags.page_tokens,
                  "tokens of a page of the KV cache: 8, 16, 32 or 64; answers do not depend on it")
      ->check(CLI::IsMember(std::vector<int>(std::begin(kPageSizes), std::end(kPageSizes))))
      ->capture_default_str();
}

void add_engine_flags(CLI::App& command, EngineFlags& flags) {
  add_exec_flags(command, flags);
  command
      .add_option("--context", flags.context,
                  "tokens of context; 0: the model's (clamped to what the KV pool holds)")
      ->check(zero_or_more());
  command.add_option(
      "--kv-memory", flags.kv_memory,
      "size of the KV cache, such as 2GiB; default: a quarter of free memory, at most 4GiB");
  add_kv_policy_flag(command, flags);
  command.add_option("--chat-template", flags.chat_template_file,
                     "a Jinja file to use instead of the model's own template");
}

void add_kv_policy_flag(CLI::App& command, EngineFlags& flags) {
  command
      .add_option(
          "--kv-policy", flags.kv_policy,
          "what is kept of a text: full; window=N: the last N tokens; sinks=S,window=N: and "
          "the first S (then --context may exceed the model's)")
      ->capture_default_str();
}

std::vector<std::string> kv_type_names() {
  return {std::begin(kKvTypeNames), std::end(kKvTypeNames)};
}

EngineOptions engine_options(const EngineFlags& flags) {
  EngineOptions options;
  options.threads = flags.threads;
  options.context = flags.context;
  if (!flags.kv_memory.empty()) options.kv_memory = parse_size(flags.kv_memory, "--kv-memory");
  options.kv_type = *kv_type_of(flags.kv_type);
  options.page_tokens = flags.page_tokens;
  options.kv_policy = parse_kv_policy(flags.kv_policy, "--kv-policy");
  options.activations = flags.activations == "int8x2" ? Activations::int8x2 : Activations::int8;
  if (!flags.chat_template_file.empty())
    options.chat_template = read_file(flags.chat_template_file);
  options.strict = flags.strict;
  return options;
}

std::unique_ptr<Engine> load_engine(const std::string& model, const EngineFlags& flags,
                                    bool quiet) {
  LoadingBar bar(model, quiet);
  EngineOptions options = engine_options(flags);
  options.max_running = 1;
  options.progress = [&](double share) {
    bar.show(share);
    stop_if_interrupted();
  };
  return Engine::load(model, options);
}

uint64_t parse_size(const std::string& text, const std::string& option) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit.ends_with("ib"))
    unit.resize(unit.size() - 2);
  else if (unit.size() == 2 && unit.back() == 'b')
    unit.pop_back();
  const int shift = unit.empty() || unit == "b" ? 0
                    : unit == "k"               ? 10
                    : unit == "m"               ? 20
                    : unit == "g"               ? 30
                                                : -1;
  if (error != std::errc() || shift < 0 || value > UINT64_MAX >> shift)
    fail(ErrorCode::invalid_argument, "{}: got '{}', wanted a size such as 2GiB or 512MiB", option,
         text);
  return value << shift;
}

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(ErrorCode::not_found, "{}: cannot be read", path);
  std::ostringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

LoadingBar::LoadingBar(std::string what, bool quiet)
    : what_(std::move(what)), visible_(!quiet && isatty(STDERR_FILENO) == 1) {}

LoadingBar::~LoadingBar() {
  if (visible_ && percent_ >= 0) fmt::print(stderr, "\r\033[K");
}

void LoadingBar::show(double share) {
  const int percent = static_cast<int>(share * 100);
  if (!visible_ || percent == percent_) return;
  percent_ = percent;
  constexpr int kWidth = 30;
  const int full = percent * kWidth / 100;
  fmt::print(stderr, "\rloading {} [{}{}] {:3}%", what_,
             std::string(static_cast<size_t>(full), '#'),
             std::string(static_cast<size_t>(kWidth - full), ' '), percent);
  std::fflush(stderr);
}

}  // namespace strata::cli
