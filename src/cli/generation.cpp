#include "cli/generation.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>

#include "base/error.h"

namespace strata::cli {
namespace {

// Hands results from the engine's thread to the one that waits.
class WaitingSink final : public ResultSink {
 public:
  void on_token(const TokenEvent& event) override {
    const std::chrono::duration<double> since = Clock::now() - begin_;
    const std::lock_guard lock(mutex_);
    // An event may have no id: at the end, with text that was held back.
    fresh_.push_back({event.ids.empty() ? kNoToken : event.ids.front(), since.count(), event.text});
    for (size_t i = 1; i < event.ids.size(); ++i)
      fresh_.push_back({event.ids[i], since.count(), ""});
    finish_ = event.finish;
    error_ = event.error;
    wake_.notify_one();
  }
  void on_done(const RequestSummary& summary) override {
    const std::lock_guard lock(mutex_);
    summary_ = summary;
    done_ = true;
    wake_.notify_one();
  }

  // What came since the last call, waiting for some at most `milliseconds`; done: nothing follows.
  std::vector<TimedToken> take(int milliseconds, bool& done) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                   [&] { return done_ || !fresh_.empty(); });
    done = done_;
    return std::exchange(fresh_, {});
  }
  // After done.
  void result(Generated& out, std::string& error) {
    out.finish = finish_;
    out.summary = summary_;
    error = error_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<TimedToken> fresh_;
  FinishReason finish_ = FinishReason::none;
  std::string error_;
  RequestSummary summary_;
  bool done_ = false;
};

}  // namespace

void add_sampling_flags(CLI::App& command, SamplingFlags& flags) {
  command.add_option("--max-tokens", flags.max_tokens, "tokens to generate at most")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  command.add_option("--temperature", flags.temperature, "0: always the best token; default 1")
      ->check(CLI::Range(0.0, 100.0));
  command.add_option("--top-k", flags.top_k, "keep the k best tokens; 0: all")
      ->check(zero_or_more());
  command.add_option("--top-p", flags.top_p, "keep the best tokens whose shares add up to this")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--min-p", flags.min_p, "drop tokens less likely than this share of the best")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--seed", flags.seed, "64-bit seed; the same seed gives the same text");
  command.add_option("--stop", flags.stop, "a string that ends the answer (up to 16 times)")
      ->expected(1, 16)
      ->allow_extra_args(false);
}

GenerationRequest generation_request(const SamplingFlags& flags, const Engine& engine) {
  const GenerationDefaults& defaults = engine.defaults();
  GenerationRequest request;
  SamplingParams& s = request.sampling;
  s.temperature = flags.temperature.value_or(defaults.temperature.value_or(1));
  s.top_k = flags.top_k.value_or(defaults.top_k.value_or(0));
  s.top_p = flags.top_p.value_or(defaults.top_p.value_or(1));
  s.min_p = flags.min_p.value_or(defaults.min_p.value_or(0));
  s.repetition_penalty = defaults.repetition_penalty.value_or(1);
  std::random_device device;
  s.seed = flags.seed ? *flags.seed : static_cast<uint64_t>(device()) << 32 | device();
  for (const std::string& stop : flags.stop)
    if (stop.empty())
      fail(ErrorCode::invalid_argument, "--stop: an empty string would end every answer");
  request.stop = flags.stop;
  request.max_tokens = flags.max_tokens;
  return request;
}

Generated generate(Engine& engine, GenerationRequest request,
                   const std::function<void(std::string_view)>& on_text) {
  return generate_timed(engine, std::move(request), [&](const TimedToken& token) {
    if (!token.text.empty()) on_text(token.text);
  });
}

Generated generate_timed(Engine& engine, GenerationRequest request,
                         const std::function<void(const TimedToken&)>& on_token) {
  const auto sink = std::make_shared<WaitingSink>();
  uint64_t id = 0;
  if (engine.submit(std::move(request), sink, id) != Submit::accepted)
    fail(ErrorCode::internal, "generate: the engine takes no requests");
  Generated out;
  bool cancelled = false;
  for (bool done = false; !done;) {
    for (const TimedToken& token : sink->take(kInterruptPollMilliseconds, done)) {
      out.text += token.text;
      if (token.id != kNoToken) {
        out.ids.push_back(token.id);
        out.seconds.push_back(token.seconds);
      }
      on_token(token);
    }
    if (interrupted() && !cancelled) {
      engine.cancel(id);
      cancelled = true;
    }
  }
  std::string error;
  sink->result(out, error);
  if (out.finish == FinishReason::error) fail(ErrorCode::internal, "generate: {}", error);
  return out;
}

}  // namespace strata::cli
