#include "bench/engine_run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <span>

#include "base/error.h"
#include "bench/timing.h"

namespace strata {
namespace {

constexpr auto kCheckEvery = std::chrono::milliseconds(100);

// When the tokens of one request came.
class TokenClock : public ResultSink {
 public:
  void on_token(const TokenEvent& event) override {
    const double now = now_seconds();
    const std::lock_guard lock(mutex_);
    times_.insert(times_.end(), event.ids.size(), now);
    if (event.finish == FinishReason::error) error_ = event.error;
  }
  void on_done(const RequestSummary& summary) override {
    const std::lock_guard lock(mutex_);
    summary_ = summary;
    done_ = true;
    finished_.notify_all();
  }

  // Waits for the end. Throws what `check` throws, and Error{internal} when the engine failed.
  void wait(const std::function<void()>& check) {
    std::unique_lock lock(mutex_);
    while (!finished_.wait_for(lock, kCheckEvery, [&] { return done_; })) {
      lock.unlock();
      if (check) check();
      lock.lock();
    }
    if (!error_.empty()) fail(ErrorCode::internal, "bench: the engine failed: {}", error_);
  }

  // After wait().
  const std::vector<double>& times() const { return times_; }
  double prompt_seconds() const { return summary_.timings.prompt_seconds; }

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  std::vector<double> times_;  // of each token drawn
  std::string error_;
  RequestSummary summary_;
  bool done_ = false;
};

std::shared_ptr<TokenClock> submit(Engine& engine, int64_t prompt, int64_t tokens, uint64_t seed) {
  GenerationRequest request;
  request.prompt = random_prompt(engine.tokenizer().vocabulary_size(), prompt, seed);
  request.max_tokens = tokens;
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  const auto clock = std::make_shared<TokenClock>();
  uint64_t id = 0;
  if (engine.submit(std::move(request), clock, id) != Submit::accepted)
    fail(ErrorCode::internal, "bench: the engine takes no requests");
  return clock;
}

// One run that warms up, then one value per repeat.
template <typename Run>
std::vector<double> repeat(int repeats, Run run) {
  run();
  std::vector<double> values;
  values.reserve(static_cast<size_t>(repeats));
  for (int r = 0; r < repeats; ++r) values.push_back(run());
  return values;
}

Measurement measurement(const Engine& engine, const char* what, OrderedJson params) {
  Measurement m;
  m.what = what;
  m.model = engine.model().path.stem().string();
  m.params = std::move(params);
  m.params["kv_type"] = kv_type_name(engine.options().kv_type);
  if (engine.options().activations != Activations::int8)
    m.params["activations"] = activations_name(engine.options().activations);
  if (engine.options().page_tokens != kDefaultPageTokens)
    m.params["page_size"] = engine.options().page_tokens;
  m.unit = "tokens/s";
  return m;
}

// A decode step in which the streams hold `contexts` tokens, the one they read included.
Work decode_step(const Engine& engine, std::span<const int64_t> contexts) {
  const auto streams = static_cast<int64_t>(contexts.size());
  Work work = model_pass(engine.model(), streams, streams);
  for (const int64_t context : contexts)
    work.read_bytes += kv_read_bytes(engine.model(), engine.options().kv_type, context - 1);
  return work;
}

}  // namespace

std::vector<TokenId> random_prompt(int64_t vocabulary, int64_t tokens, uint64_t seed) {
  std::vector<TokenId> prompt;
  uint64_t state = seed;
  for (int64_t i = 0; i < tokens; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    prompt.push_back(static_cast<TokenId>((state >> 33) % static_cast<uint64_t>(vocabulary)));
  }
  return prompt;
}

std::unique_ptr<Engine> load_for_bench(const std::string& model, const EngineRunOptions& options,
                                       int64_t tokens, int streams) {
  EngineOptions engine;
  engine.threads = options.threads;
  engine.kv_type = options.kv_type;
  engine.page_tokens = options.page_tokens;
  engine.activations = options.activations;
  engine.strict = options.strict;
  engine.context = tokens;
  engine.max_running = streams;
  engine.queue = std::max(engine.queue, streams);
  engine.prefix_cache = false;  // repeats are to compute the same work again
  // Prompts of many streams in as few steps as on an idle machine, however slow this one is:
  // batch_stream_tokens counts on it, and what is measured comes after them.
  engine.itl_target_seconds = 3600;
  engine.progress = options.progress;
  auto loaded = Engine::load(model, engine);
  if (loaded->context_length() < tokens)
    fail(ErrorCode::invalid_argument,
         "bench: {} tokens of context are needed, {} holds {} here; measure fewer", tokens,
         loaded->model().path.string(), loaded->context_length());
  return loaded;
}

Measurement measure_prefill(Engine& engine, const EngineRunOptions& options, int64_t prompt) {
  Measurement m = measurement(engine, "prefill", {{"prompt", prompt}});
  m.values = repeat(options.repeats, [&] {
    const auto clock = submit(engine, prompt, 1, 1);
    clock->wait(options.check);
    return static_cast<double>(prompt) / clock->prompt_seconds();
  });
  const int64_t step = engine.options().batch_tokens;
  for (int64_t begin = 0; begin < prompt; begin += step) {
    const int64_t end = std::min(prompt, begin + step);
    m.work += model_pass(engine.model(), end - begin, end == prompt ? 1 : 0);
  }
  m.units = static_cast<double>(prompt);
  return m;
}

Measurement measure_decode(Engine& engine, const EngineRunOptions& options, int64_t context,
                           int64_t tokens) {
  Measurement m = measurement(engine, "decode", {{"context", context}, {"tokens", tokens}});
  m.values = repeat(options.repeats, [&] {
    // The first token is the prompt's.
    const auto clock = submit(engine, context, tokens + 1, 1);
    clock->wait(options.check);
    return static_cast<double>(tokens) / (clock->times().back() - clock->times().front());
  });
  for (int64_t i = 1; i <= tokens; ++i) {
    const int64_t held = context + i;
    m.work += decode_step(engine, {&held, 1});
  }
  m.units = static_cast<double>(tokens);
  return m;
}

int64_t batch_stream_tokens(int streams, int64_t context, int64_t tokens) {
  // The first streams generate while the last prompts are read, a few hundred rows a step; the
  // engine's step is 512 rows unless there are more streams.
  const int64_t rows_for_prompts = std::max<int64_t>(512 - streams, 64);
  const int64_t steps = (streams * context + rows_for_prompts - 1) / rows_for_prompts + 8;
  return context + steps + tokens + 1;
}

Measurement measure_batch(Engine& engine, const EngineRunOptions& options, int streams,
                          int64_t context, int64_t tokens) {
  Measurement m = measurement(engine, "batch_decode",
                              {{"streams", streams}, {"context", context}, {"tokens", tokens}});
  std::vector<int64_t> held(static_cast<size_t>(streams));  // when all have begun; last repeat
  int64_t steps = 0;
  m.values = repeat(options.repeats, [&] {
    std::vector<std::shared_ptr<TokenClock>> clocks;
    clocks.reserve(static_cast<size_t>(streams));
    for (int s = 0; s < streams; ++s)
      clocks.push_back(submit(engine, context,
                              batch_stream_tokens(streams, context, tokens) - context,
                              static_cast<uint64_t>(s) + 1));
    for (const auto& clock : clocks) clock->wait(options.check);
    // From its first token on, the last stream to begin has a token per step of the whole batch.
    const auto& last = *std::max_element(
        clocks.begin(), clocks.end(),
        [](const auto& a, const auto& b) { return a->times().front() < b->times().front(); });
    const double begin = last->times().front();
    steps = tokens;
    for (size_t s = 0; s < clocks.size(); ++s) {
      const std::vector<double>& times = clocks[s]->times();
      const int64_t drawn = std::upper_bound(times.begin(), times.end(), begin) - times.begin();
      held[s] = context + drawn;
      steps = std::min(steps, static_cast<int64_t>(times.size()) - drawn);
    }
    if (steps < 1)
      fail(ErrorCode::resource_exhausted,
           "bench: {} streams of {} tokens do not fit the KV cache together; measure fewer",
           streams, context + tokens);
    return static_cast<double>(streams * steps) /
           (last->times()[static_cast<size_t>(steps)] - begin);
  });
  for (int64_t i = 0; i < steps; ++i) {
    m.work += decode_step(engine, held);
    for (int64_t& h : held) ++h;
  }
  m.units = static_cast<double>(streams * steps);
  return m;
}

}  // namespace strata
