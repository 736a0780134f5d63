#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "engine/engine.h"

namespace strata::cli {

// The options by which commands load a model to run it.
struct EngineFlags {
  int threads = 0;
  int64_t context = 0;
  std::string kv_memory;
  std::string kv_type = "f16";
  int page_tokens = kDefaultPageTokens;
  std::string kv_policy = "full";
  std::string activations = "int8";
  std::string chat_template_file;
  bool strict = false;
};
void add_engine_flags(CLI::App& command, EngineFlags& flags);
// --threads, --kv-type, --page-size, --activations and --strict, which commands without an engine
// take too.
void add_exec_flags(CLI::App& command, EngineFlags& flags);
// --kv-type and --page-size.
void add_kv_flags(CLI::App& command, EngineFlags& flags);
void add_kv_policy_flag(CLI::App& command, EngineFlags& flags);
// What --kv-type takes.
std::vector<std::string> kv_type_names();
// Reads the template file, parses sizes; throws Error{invalid_argument}.
EngineOptions engine_options(const EngineFlags& flags);
// The engine of a command that answers one request at a time, with a LoadingBar unless quiet.
std::unique_ptr<Engine> load_engine(const std::string& model, const EngineFlags& flags, bool quiet);

// "2GiB", "512M", "1000000": bytes. K, M, G and their iB forms are powers of 1024.
uint64_t parse_size(const std::string& text, const std::string& option);

// A whole file; throws Error naming it.
std::string read_file(const std::string& path);

// A bar on stderr while a model loads; nothing unless stderr is a terminal.
class LoadingBar {
 public:
  LoadingBar(std::string what, bool quiet);
  ~LoadingBar();
  void show(double share);

 private:
  std::string what_;
  bool visible_;
  int percent_ = -1;
};

}  // namespace strata::cli
