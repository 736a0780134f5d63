#include "eval/determinism.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/cpu.h"
#include "base/error.h"
#include "base/philox.h"
#include "engine/serve_exec.h"

namespace strata {
namespace {

constexpr int64_t kContext = 256;
constexpr uint64_t kSwapBytes = uint64_t{256} << 20;
constexpr auto kCheckEvery = std::chrono::milliseconds(100);

uint32_t bits(float x) {
  uint32_t out;
  std::memcpy(&out, &x, sizeof(out));
  return out;
}

// All that a request was answered, logprobs as bits.
struct Answer {
  struct Choice {
    std::vector<TokenId> ids;
    std::string text;
    std::vector<uint32_t> logprobs;
    FinishReason finish = FinishReason::none;
  };
  std::vector<Choice> choices;
  int64_t completion_tokens = 0, cached_tokens = 0;
};

class Collector final : public ResultSink {
 public:
  explicit Collector(int choices) { answer_.choices.resize(static_cast<size_t>(choices)); }
  void on_token(const TokenEvent& event) override {
    const std::lock_guard lock(mutex_);
    Answer::Choice& choice = answer_.choices[static_cast<size_t>(event.choice)];
    choice.ids.insert(choice.ids.end(), event.ids.begin(), event.ids.end());
    choice.text += event.text;
    choice.finish = event.finish;
    for (const TokenLogprob& l : event.logprobs) {
      choice.logprobs.push_back(bits(l.logprob));
      for (const auto& [id, logprob] : l.top) {
        choice.logprobs.push_back(static_cast<uint32_t>(id));
        choice.logprobs.push_back(bits(logprob));
      }
    }
    if (event.finish == FinishReason::error) error_ = event.error;
  }
  void on_done(const RequestSummary& summary) override {
    const std::lock_guard lock(mutex_);
    answer_.completion_tokens = summary.completion_tokens;
    answer_.cached_tokens = summary.cached_tokens;
    done_ = true;
    wake_.notify_all();
  }
  Answer wait(const std::function<void()>& check) {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kCheckEvery, [&] { return done_; })) {
      lock.unlock();
      if (check) check();
      lock.lock();
    }
    if (!error_.empty()) fail(ErrorCode::internal, "verify: the engine failed: {}", error_);
    return answer_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  Answer answer_;
  std::string error_;
  bool done_ = false;
};

std::vector<TokenId> random_prompt(const Engine& engine, int64_t size, uint64_t seed) {
  std::vector<TokenId> prompt;
  const auto vocabulary = static_cast<double>(engine.tokenizer().vocabulary_size());
  for (int64_t i = 0; i < size; ++i)
    prompt.push_back(
        static_cast<TokenId>(sampling_uniform(seed, static_cast<uint32_t>(i), 0, 0) * vocabulary));
  return prompt;
}

// The requests that are compared: sizes on both sides of pages and chunks, every kind of draw.
std::vector<GenerationRequest> watched(const Engine& engine) {
  std::vector<GenerationRequest> out;
  const int64_t sizes[] = {1, 16, 33, 64, 120, 150};
  for (size_t i = 0; i < std::size(sizes); ++i) {
    GenerationRequest r;
    r.prompt = random_prompt(engine, sizes[i], 100 + i);
    r.max_tokens = 32;
    r.top_logprobs = 5;
    r.sampling.ignore_eos = true;
    r.sampling.seed = 1000 + i;
    r.sampling.temperature = i % 3 == 0 ? 0 : 0.9;
    if (i % 3 == 1) r.sampling.top_p = 0.9;
    if (i == 2) r.sampling.frequency_penalty = 0.6;
    if (i == 3) r.sampling.repetition_penalty = 1.2;
    if (i == 4) r.choices = 2;
    out.push_back(std::move(r));
  }
  return out;
}

// least_tokens: what each generates at least.
GenerationRequest other(const Engine& engine, uint64_t number, int64_t least_tokens) {
  GenerationRequest r;
  r.prompt = random_prompt(engine, 1 + static_cast<int64_t>(number * 37 % 40), 500 + number);
  r.max_tokens = least_tokens + static_cast<int64_t>(number * 29 % 24);
  r.sampling.seed = number;
  r.sampling.ignore_eos = true;
  return r;
}

std::string first_difference(const Answer& want, const Answer& got) {
  for (size_t c = 0; c < want.choices.size(); ++c) {
    const Answer::Choice &a = want.choices[c], &b = got.choices[c];
    for (size_t i = 0; i < std::max(a.ids.size(), b.ids.size()); ++i)
      if (i >= a.ids.size() || i >= b.ids.size() || a.ids[i] != b.ids[i])
        return fmt::format("choice {}: token {} differs", c, i);
    if (a.logprobs != b.logprobs) return fmt::format("choice {}: logprobs differ", c);
    if (a.text != b.text || a.finish != b.finish) return fmt::format("choice {}: text differs", c);
  }
  return want.completion_tokens == got.completion_tokens ? "" : "usage differs";
}

class Verification {
 public:
  Verification(const std::string& model, const EngineOptions& engine,
               const DeterminismOptions& options)
      : path_(model), engine_(engine), options_(options) {
    engine_.context = kContext;
    engine_.max_running = 1 + options_.others;
    engine_.batch_tokens = 512;
    engine_.prefix_cache = false;
    engine_.memory_floor = 0;
  }

  DeterminismReport run() {
    const auto plain = load(engine_);
    if (plain->context_length() < kContext)
      fail(ErrorCode::invalid_argument,
           "verify determinism: {} tokens of context are needed, the model holds {}", kContext,
           plain->context_length());
    report_.model = plain->model().path.stem().string();
    report_.model_hash = plain->model().hash;
    report_.isa = isa_level_name(isa_level());
    report_.kv_type = engine_.kv_type;
    report_.threads = plain->options().threads;
    requests_ = watched(*plain);
    say("alone");
    for (const GenerationRequest& r : requests_) want_.push_back(ask(*plain, r));
    add("alone", "a second time", *plain, false);
    compare_text(*plain);
    const std::string crowd = fmt::format("among {} others", options_.others);
    add("among others", crowd + ", one batch", *plain, true);

    KvShape shape = kv_shape(plain->model(), engine_.kv_type, {}, engine_.page_tokens);
    for (const int threads : {1, 2, 3}) {
      EngineOptions o = engine_;
      o.threads = threads;
      add("threads", fmt::format("{}, {}", threads, crowd), *load(o), true);
    }
    for (const int rows : {1, 7, 64}) {
      EngineOptions o = engine_;
      o.batch_tokens = rows;
      o.max_running = rows == 1 ? 1 : 7;
      add("prompts in chunks", fmt::format("steps of {} rows", std::max(rows, o.max_running)),
          *load(o), rows > 1);
    }
    for (const int tokens : {8, 64}) {
      if (tokens == engine_.page_tokens) continue;
      EngineOptions o = engine_;
      o.page_tokens = tokens;
      add("page sizes", fmt::format("pages of {} tokens, {}", tokens, crowd), *load(o), true);
    }
    EngineOptions cached = engine_;
    cached.prefix_cache = true;
    const auto prefix = load(cached);
    add("prefix cache", "cold", *prefix, true);
    add("prefix cache", "warm, " + crowd, *prefix, true);
    add("prefix cache", "warm, alone", *prefix, false);
    // Without and with what the prefix cache keeps of them, and through the swap space.
    for (const int way : {0, 1, 2}) {
      EngineOptions o = engine_;
      o.prefix_cache = way == 1;
      if (way == 2) {
        o.swap_bytes = kSwapBytes;
        o.preemption = Preemption::swap;
      }
      o.batch_tokens = 64;
      uint64_t page = 0;
      for (size_t g = 0; g < shape.groups.size(); ++g)
        page += static_cast<uint64_t>(shape.page_bytes(g));
      // One long sequence, or many that grow.
      const auto pages = static_cast<uint64_t>(shape.pages_for(kContext));
      o.itl_target_seconds = 10;  // let in at once what fits
      others_tokens_ = 60;        // more pages than each has when it is let in
      o.kv_memory = page * pages;
      add("preempted",
          fmt::format("a pool of {} pages, {}", pages,
                      way == 0   ? "computed again"
                      : way == 1 ? "computed again, prefix cache on"
                                 : "swapped"),
          *load(o), true);
    }
    return std::move(report_);
  }

 private:
  void say(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }
  std::unique_ptr<Engine> load(const EngineOptions& o) const {
    say("loading");
    return Engine::load(path_, o);
  }

  std::shared_ptr<Collector> submit(Engine& engine, const GenerationRequest& r) const {
    auto sink = std::make_shared<Collector>(r.choices);
    uint64_t id = 0;
    if (engine.submit(r, sink, id) != Submit::accepted)
      fail(ErrorCode::internal, "verify: the engine takes no requests");
    return sink;
  }
  Answer ask(Engine& engine, const GenerationRequest& r) const {
    return submit(engine, r)->wait(options_.check);
  }

  // Asks for everything again, alone or in a crowd, and compares.
  void add(const std::string& what, const std::string& how, Engine& engine, bool crowd) {
    say(what + ": " + how);
    DeterminismRow row;
    row.what = what;
    row.how = how;
    const EngineStats before = engine.stats();
    std::vector<std::shared_ptr<Collector>> sinks, others;
    // The watched ones come first, last and in between.
    const size_t watched_count = requests_.size();
    const auto others_count = static_cast<uint64_t>(options_.others);
    if (crowd)
      for (uint64_t i = 0; i < others_count; ++i) {
        while (sinks.size() < watched_count && i * watched_count / others_count >= sinks.size())
          sinks.push_back(submit(engine, requests_[sinks.size()]));
        others.push_back(submit(engine, other(engine, i, others_tokens_)));
      }
    for (size_t i = 0; i < watched_count; ++i) {
      const Answer got =
          i < sinks.size() ? sinks[i]->wait(options_.check) : ask(engine, requests_[i]);
      ++row.requests;
      row.cached_tokens += got.cached_tokens;
      for (const Answer::Choice& c : got.choices) {
        row.tokens += static_cast<int64_t>(c.ids.size());
        row.logprobs += static_cast<int64_t>(c.ids.size()) * 6;  // its own and the 5 best
      }
      const std::string difference = first_difference(want_[i], got);
      if (!difference.empty() && row.difference.empty())
        row.difference = fmt::format("request {}: {}", i, difference);
    }
    for (const auto& sink : others) sink->wait(options_.check);
    const EngineStats after = engine.stats();
    row.preemptions = after.preemptions - before.preemptions;
    row.swaps = after.swaps - before.swaps;
    report_.rows.push_back(std::move(row));
  }

  // What was streamed piece by piece is the text of the ids.
  void compare_text(const Engine& engine) {
    DeterminismRow row;
    row.what = "streamed";
    row.how = "the pieces of the text, and the ids decoded at once";
    for (size_t i = 0; i < want_.size(); ++i)
      for (const Answer::Choice& c : want_[i].choices) {
        StreamDecoder decoder(engine.tokenizer());
        std::string text;
        for (const TokenId id : c.ids) text += decoder.push(id);
        text += decoder.finish();
        ++row.requests;
        row.tokens += static_cast<int64_t>(c.ids.size());
        if (text != c.text && row.difference.empty())
          row.difference = fmt::format("request {}: text differs", i);
      }
    report_.rows.push_back(std::move(row));
  }

  const std::string path_;
  EngineOptions engine_;
  const DeterminismOptions& options_;
  std::vector<GenerationRequest> requests_;
  int64_t others_tokens_ = 4;
  std::vector<Answer> want_;
  DeterminismReport report_;
};

}  // namespace

bool DeterminismReport::equal() const {
  return std::all_of(rows.begin(), rows.end(),
                     [](const DeterminismRow& r) { return r.difference.empty(); });
}

DeterminismReport verify_determinism(const std::string& model, const EngineOptions& engine,
                                     const DeterminismOptions& options) {
  return Verification(model, engine, options).run();
}

}  // namespace strata
