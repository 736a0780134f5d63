#include <fmt/core.h>

#include <cstdio>
#include <ctime>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/generation.h"
#include "engine/chat_prompt.h"

namespace strata::cli {
namespace {

struct RunFlags {
  GlobalOptions global;
  EngineFlags engine;
  SamplingFlags sampling;
  std::string model;
  std::string prompt;
  std::string prompt_file;
  bool chat = false;
  bool parse_special = true;
  bool timestamps = false;
  std::string load_session, save_session;
};

const char* finish_text(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::timeout:
      return "timeout";
    default:
      return "cancelled";
  }
}

std::string result_json(const Generated& result, const Engine& engine, uint64_t seed,
                        bool timestamps) {
  const RequestTimings& t = result.summary.timings;
  OrderedJson out;
  out["text"] = result.text;
  out["ids"] = result.ids;
  out["finish_reason"] = finish_text(result.finish);
  out["usage"]["prompt_tokens"] = result.summary.prompt_tokens;
  out["usage"]["prompt_tokens_details"]["cached_tokens"] = result.summary.cached_tokens;
  out["usage"]["completion_tokens"] = result.summary.completion_tokens;
  out["usage"]["total_tokens"] = result.summary.prompt_tokens + result.summary.completion_tokens;
  if (timestamps) out["token_seconds"] = result.seconds;
  out["timings"]["prompt_ms"] = t.prompt_seconds * 1e3;
  out["timings"]["generation_ms"] = t.generation_seconds * 1e3;
  out["seed"] = seed;
  out["system_fingerprint"] = engine.fingerprint();
  return to_json_text(out);
}

// Writes text as it comes; with --timestamps a line for each token: when it came, how long after
// the one before, and its text as JSON has it, so that a line break does not break the line.
class Printer {
 public:
  explicit Printer(const RunFlags& flags)
      : prints_(!flags.global.json), timestamps_(flags.timestamps) {}

  void operator()(const TimedToken& token) {
    if (!prints_) return;
    if (!timestamps_) {
      std::fwrite(token.text.data(), 1, token.text.size(), stdout);
    } else if (token.id != kNoToken || !token.text.empty()) {
      const std::string gap =
          last_ < 0 ? "" : fmt::format("+{:.1f} ms", (token.seconds - last_) * 1e3);
      fmt::print("{:10.4f} s {:>12}  {}\n", token.seconds, gap, to_json_text(Json(token.text)));
      last_ = token.seconds;
    }
    std::fflush(stdout);
  }

 private:
  const bool prints_, timestamps_;
  double last_ = -1;
};

int run_command(const RunFlags& flags) {
  const std::string prompt =
      flags.prompt_file.empty() ? flags.prompt : read_file(flags.prompt_file);
  const std::unique_ptr<Engine> engine = load_engine(flags.model, flags.engine, flags.global.quiet);
  GenerationRequest request = generation_request(flags.sampling, *engine);
  if (flags.chat) {
    OrderedJson messages = OrderedJson::array();
    messages.push_back({{"role", "user"}, {"content", prompt}});
    request.prompt = chat_prompt(*engine, std::move(messages));
  } else {
    const auto control = flags.parse_special ? ControlText::parse : ControlText::as_text;
    // A session has its beginning-of-text token already.
    request.prompt = engine->tokenizer().encode(prompt, {control, flags.load_session.empty()});
  }
  if (!flags.load_session.empty()) {
    const std::vector<TokenId> before = engine->load_session(flags.load_session);
    request.prompt.insert(request.prompt.begin(), before.begin(), before.end());
  }
  std::vector<TokenId> text = request.prompt;  // and what will be generated
  const uint64_t seed = request.sampling.seed;
  const bool stream = !flags.global.json;
  Printer print(flags);
  const Generated result =
      generate_timed(*engine, std::move(request), [&](const TimedToken& token) { print(token); });
  if (!flags.save_session.empty()) {
    text.insert(text.end(), result.ids.begin(), result.ids.end());
    engine->save_session(flags.save_session, text);
  }
  if (stream) {
    if (!flags.timestamps && !result.text.ends_with('\n')) fmt::print("\n");
    std::fflush(stdout);
  } else {
    print_json(result_json(result, *engine, seed, flags.timestamps));
  }
  if (!flags.global.quiet && stream) {
    const RequestSummary& s = result.summary;
    const auto rate = [](int64_t tokens, double seconds) {
      return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
    };
    fmt::print(
        stderr, "[{} prompt tokens, {:.1f} tok/s; {} generated, {:.1f} tok/s; ended by {}]\n",
        s.prompt_tokens, rate(s.prompt_tokens, s.timings.prompt_seconds), s.completion_tokens,
        rate(s.completion_tokens - 1, s.timings.generation_seconds), finish_text(result.finish));
  }
  return interrupted() ? kInterrupted : kDone;
}

}  // namespace

void add_run(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App& command = *app.add_subcommand("run", "one completion, streamed to stdout");
  command.footer("Example: strata run smollm2-135m --chat -p 'Name three llamas.' --temperature 0");
  command.add_option("MODEL", flags->model, "catalogue name, .gguf file or folder")->required();
  CLI::Option* text = command.add_option("-p,--prompt", flags->prompt, "the prompt");
  CLI::Option* file =
      command.add_option("--prompt-file", flags->prompt_file, "a file with the prompt");
  text->excludes(file);
  CLI::Option* chat = command.add_flag("--chat", flags->chat, "apply the model's chat template");
  command.add_flag(
      "--parse-special,!--no-parse-special", flags->parse_special,
      "whether spellings of control tokens in a raw prompt become control tokens (default: yes)");
  command.add_flag("--timestamps", flags->timestamps,
                   "a line for each token: when it came after the request was made, the gap before "
                   "it, its text; with --json as token_seconds");
  CLI::Option* load =
      command.add_option("--load-session", flags->load_session,
                         "a file of --save-session: the prompt goes on where its text ended, and "
                         "nothing of it is computed again");
  load->excludes(chat);
  command.add_option("--save-session", flags->save_session,
                     "writes the text with its keys and values to this file at the end");
  add_sampling_flags(command, flags->sampling);
  add_engine_flags(command, flags->engine);
  add_common_options(command, flags->global);
  command.callback([flags, &run, text, file] {
    if (text->count() + file->count() == 0) throw CLI::RequiredError("--prompt or --prompt-file");
    run = [flags] { return run_command(*flags); };
  });
}

}  // namespace strata::cli
