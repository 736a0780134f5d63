#pragma once

#include <atomic>
#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace strata::cli {

// Exit statuses of the program.
enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,
  kWrongUsage = 2,
  kBadData = 3,
  kNoMemory = 4,
  kInterrupted = 130,
};

// What every command can be told.
struct GlobalOptions {
  bool json = false;
  bool quiet = false;
};

// Runs the program and returns its exit status; nothing is thrown.
int guarded_main(int argc, char** argv);

// Adds --json and --quiet to a command.
void add_common_options(CLI::App& command, GlobalOptions& options);

// The check of an option that takes a number from 0 on.
CLI::Validator zero_or_more();

// One subcommand: add() declares its options and sets `run` to what it does, returning the exit
// status. Errors are thrown.
using Run = std::function<int()>;
void add_run(CLI::App& app, Run& run);
void add_chat(CLI::App& app, Run& run);
void add_serve(CLI::App& app, Run& run);
void add_tokenize(CLI::App& app, Run& run);
void add_inspect(CLI::App& app, Run& run);
void add_models(CLI::App& app, Run& run);
void add_eval(CLI::App& app, Run& run);
void add_tokenizer(CLI::App& app, Run& run);
void add_train(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_explain(CLI::App& app, Run& run);
void add_verify(CLI::App& app, Run& run);
void add_doctor(CLI::App& app, Run& run);

// True once SIGINT or SIGTERM came; a second one ends the process at once. Set up by main.
bool interrupted();
// How often one that waits for something else looks whether it is interrupted.
constexpr int kInterruptPollMilliseconds = 50;
// Forgets a SIGINT that has done its work (it stopped one answer of a chat); a SIGTERM stays, and
// the answer is false.
bool clear_interrupt();
// Throws Error{cancelled} once interrupted.
void stop_if_interrupted();

// One JSON object on stdout, with a newline.
void print_json(const std::string& text);

}  // namespace strata::cli
