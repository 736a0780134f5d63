#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/generation.h"
#include "engine/chat_prompt.h"
#include "model/catalogue.h"

namespace strata::cli {
namespace {

struct ChatFlags {
  GlobalOptions global;
  EngineFlags engine;
  SamplingFlags sampling;
  std::string model;
  std::string system;
};

constexpr const char* kHelp =
    "/system TEXT  sets the system prompt     /reset  starts over     /retry  another answer\n"
    "/undo  takes the last turn back          /help                   /quit or Ctrl-D\n"
    "Ctrl-C stops an answer, twice leaves. A line that ends in \\ goes on in the next one.\n";

// A conversation and the engine that continues it.
class Conversation {
 public:
  Conversation(Engine& engine, const ChatFlags& flags)
      : engine_(engine), flags_(flags), system_(flags.system) {}

  void set_system(std::string text) { system_ = std::move(text); }
  void reset() { turns_ = OrderedJson::array(); }
  // Takes back the last question with its answer; false: there is none.
  bool undo() {
    if (turns_.empty()) return false;
    while (!turns_.empty() && turns_.back()["role"] != "user") turns_.erase(turns_.size() - 1);
    if (!turns_.empty()) turns_.erase(turns_.size() - 1);
    return true;
  }
  std::optional<std::string> last_question() const {
    for (auto it = turns_.rbegin(); it != turns_.rend(); ++it)
      if ((*it)["role"] == "user") return (*it)["content"].get<std::string>();
    return std::nullopt;
  }

  // Asks and streams the answer to stdout; the turn is kept, also when Ctrl-C cut it short.
  void ask(const std::string& question) {
    OrderedJson messages = OrderedJson::array();
    if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
    for (const OrderedJson& turn : turns_) messages.push_back(turn);
    messages.push_back({{"role", "user"}, {"content", question}});
    GenerationRequest request = generation_request(flags_.sampling, engine_);
    request.prompt = chat_prompt(engine_, std::move(messages));
    const Generated answer = generate(engine_, std::move(request), [](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    });
    turns_.push_back({{"role", "user"}, {"content", question}});
    turns_.push_back({{"role", "assistant"}, {"content", answer.text}});
    fmt::print("\n");
    if (flags_.global.quiet) return;
    const RequestTimings& t = answer.summary.timings;
    const double rate =
        t.generation_seconds > 0
            ? static_cast<double>(answer.summary.completion_tokens - 1) / t.generation_seconds
            : 0;
    fmt::print(stderr, "[{} of {} tokens of context, {:.1f} tok/s{}]\n",
               answer.summary.prompt_tokens + answer.summary.completion_tokens,
               engine_.context_length(), rate,
               answer.finish == FinishReason::length ? ", cut at its limit (--max-tokens)" : "");
  }

 private:
  Engine& engine_;
  const ChatFlags& flags_;
  std::string system_;
  OrderedJson turns_ = OrderedJson::array();
};

// Waits for a whole line at the terminal; false when Ctrl-C came first.
bool line_before_interrupt() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (!interrupted())
    if (poll(&input, 1, kInterruptPollMilliseconds) > 0) return true;
  return false;
}

// A line, joined with the next ones while it ends in a backslash; false at the end of input.
// At a terminal a Ctrl-C was often meant for the answer that has just ended: the first drops what
// was typed, two in a row leave.
bool read_question(bool terminal, std::string& question) {
  question.clear();
  std::string line;
  const char* prompt = "> ";
  for (bool warned = false;;) {
    if (terminal) {
      fmt::print("{}", prompt);
      std::fflush(stdout);
    }
    if (terminal && !line_before_interrupt()) {
      if (warned || !clear_interrupt()) return false;
      fmt::print("\nCtrl-C again or Ctrl-D to leave\n");
      question.clear();
      prompt = "> ";
      warned = true;
      continue;
    }
    if (!std::getline(std::cin, line)) return !question.empty();
    const bool more = line.ends_with('\\');
    question += more ? line.substr(0, line.size() - 1) + "\n" : line;
    if (!more) break;
    prompt = ". ";
  }
  question = replace_invalid_utf8(question);
  return true;
}

// Returns false when the conversation is over.
bool handle_line(Conversation& conversation, const std::string& line) {
  if (line == "/quit" || line == "/exit") return false;
  if (line == "/help") {
    fmt::print(stderr, "{}", kHelp);
  } else if (line == "/reset") {
    conversation.reset();
  } else if (line == "/undo") {
    if (!conversation.undo()) fmt::print(stderr, "nothing to take back\n");
  } else if (line == "/retry") {
    const auto question = conversation.last_question();
    if (!question) {
      fmt::print(stderr, "nothing to answer again\n");
      return true;
    }
    conversation.undo();
    conversation.ask(*question);
  } else if (line.starts_with("/system")) {
    conversation.set_system(line.size() > 8 ? line.substr(8) : "");
  } else if (line.starts_with('/')) {
    fmt::print(stderr, "unknown command {}\n{}", line.substr(0, line.find(' ')), kHelp);
  } else {
    conversation.ask(line);
  }
  return true;
}

int chat_command(const ChatFlags& flags) {
  const std::unique_ptr<Engine> engine = load_engine(flags.model, flags.engine, flags.global.quiet);
  // A model without a template is told before the first question.
  chat_prompt(*engine, OrderedJson::array({{{"role", "user"}, {"content", "hi"}}}));
  const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  if (terminal && !flags.global.quiet)
    fmt::print(stderr, "{}: /help for commands, Ctrl-D to leave\n", flags.model);
  Conversation conversation(*engine, flags);
  std::string line;
  while (read_question(terminal, line)) {
    if (line.empty()) continue;
    try {
      if (!handle_line(conversation, line)) break;
    } catch (const Error& e) {
      // A refused question (too long, refused by the template) does not end the conversation.
      if (!terminal) throw;
      fmt::print(stderr, "{}\n", e.what());
    }
    if (!interrupted()) continue;
    if (!terminal || !clear_interrupt()) return kInterrupted;
  }
  return interrupted() ? kInterrupted : kDone;
}

}  // namespace

void add_chat(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<ChatFlags>();
  CLI::App& command = *app.add_subcommand("chat", "a conversation in the terminal");
  command.footer(std::string(kHelp) +
                 "Example: strata chat smollm2-135m --system 'Answer in one line.'");
  command.add_option("MODEL", flags->model, "catalogue name, .gguf file or folder")
      ->default_val(default_model());
  command.add_option("--system", flags->system, "the system prompt");
  add_sampling_flags(command, flags->sampling);
  add_engine_flags(command, flags->engine);
  command.add_flag("--quiet", flags->global.quiet, "only the answers");
  command.callback([flags, &run] { run = [flags] { return chat_command(*flags); }; });
}

}  // namespace strata::cli
