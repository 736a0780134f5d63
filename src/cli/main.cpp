#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "base/cpu.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/config_args.h"
#include "cli/usage_error.h"

namespace strata::cli {
namespace {

volatile sig_atomic_t g_interrupts = 0;
volatile sig_atomic_t g_told_to_end = 0;

void on_interrupt(int number) {
  g_interrupts = g_interrupts + 1;
  if (number == SIGTERM) g_told_to_end = 1;
  if (g_interrupts > 1) _exit(kInterrupted);
}

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return kWrongUsage;
    case ErrorCode::not_found:
    case ErrorCode::data_corrupt:
    case ErrorCode::unsupported:
      return kBadData;
    case ErrorCode::resource_exhausted:
      return kNoMemory;
    case ErrorCode::cancelled:
      return kInterrupted;
    case ErrorCode::internal:
      return kFailed;
  }
  return kFailed;
}

// A message can quote a file; what is printed is one line all the same.
void print_error(const char* message) {
  std::string line = fmt::format("strata: error: {}", message);
  for (char& c : line)
    if (c == '\n' || c == '\r') c = ' ';
  fmt::print(stderr, "{}\n", line);
}

int run_program(int argc, char** argv) {
  CLI::App app(
      "Trains, compresses, adapts and serves transformer language models on the machine one has.",
      "strata");
  app.set_version_flag("--version",
                       fmt::format("strata {} ({})", STRATA_VERSION, isa_level_name(isa_level())));
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* program, const CLI::Error& error) {
    return usage_error(*program, error);
  });
  app.footer(
      "MODEL is a catalogue name (strata models), a .gguf file or a Hugging Face folder.\n"
      "Exit status: 0 done, 1 failed, 2 wrong usage, 3 bad or unsupported file, 4 out of memory or "
      "disk,\n"
      "130 interrupted.\n"
      "Example: strata run smollm2-135m --chat -p 'What is a llama?'");
  Run run;
  add_serve(app, run);
  add_chat(app, run);
  add_run(app, run);
  add_tokenize(app, run);
  add_inspect(app, run);
  add_models(app, run);
  add_eval(app, run);
  add_tokenizer(app, run);
  add_train(app, run);
  add_bench(app, run);
  add_explain(app, run);
  add_verify(app, run);
  add_doctor(app, run);
  try {
    std::vector<std::string> arguments = with_config_file(app, {argv + 1, argv + argc});
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    // --help and --version come this way too, with status 0.
    return app.exit(e) == 0 ? kDone : kWrongUsage;
  }
  catch_interrupts();
  return run();
}

}  // namespace

int guarded_main(int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const Error& e) {
    print_error(e.what());
    return exit_status(e.code());
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
    return kNoMemory;
  } catch (const std::exception& e) {
    print_error(e.what());
    return kFailed;
  }
}

void add_common_options(CLI::App& command, GlobalOptions& options) {
  command.add_flag("--json", options.json,
                   "print one JSON object on stdout and nothing else there");
  command.add_flag("--quiet", options.quiet, "no progress, only warnings and errors on stderr");
}

CLI::Validator zero_or_more() {
  return CLI::Validator(
      [](const std::string& text) {
        double value = 0;
        const bool fits = CLI::detail::lexical_cast(text, value) && value >= 0;
        return fits ? std::string() : fmt::format("got '{}', wanted 0 or more", text);
      },
      ">=0");
}

bool interrupted() { return g_interrupts > 0; }

bool clear_interrupt() {
  if (g_told_to_end != 0) return false;
  g_interrupts = 0;
  return true;
}

void stop_if_interrupted() {
  if (interrupted()) fail(ErrorCode::cancelled, "interrupted");
}

void print_json(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

}  // namespace strata::cli

int main(int argc, char** argv) { return strata::cli::guarded_main(argc, argv); }
