#include "engine/engine_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/allocation_count_for_test.h"
#include "base/error.h"
#include "engine/letter_tokenizer_for_test.h"
#include "engine/random_model_for_test.h"
#include "model/transformer.h"

namespace strata {
namespace {

// Everything a request got: what must not depend on what else ran.
struct Answer {
  struct Choice {
    std::vector<TokenId> ids;
    std::string text;
    std::vector<uint32_t> logprobs;  // bits, of the chosen and the best
    FinishReason finish = FinishReason::none;
    bool operator==(const Choice&) const = default;
  };
  std::vector<Choice> choices;
  std::vector<uint32_t> prompt_logprobs, embedding;  // bits
  int64_t prompt_tokens = 0, completion_tokens = 0;
  int prompts_told = 0;
  bool operator==(const Answer&) const = default;
};

uint32_t bits(float x) {
  uint32_t out;
  std::memcpy(&out, &x, sizeof(out));
  return out;
}

class Collector final : public ResultSink {
 public:
  explicit Collector(int choices) { answer_.choices.resize(static_cast<size_t>(choices)); }
  void on_prompt(const std::vector<TokenLogprob>& logprobs) override {
    ++answer_.prompts_told;
    for (const TokenLogprob& l : logprobs) add(l, answer_.prompt_logprobs);
  }
  void on_token(const TokenEvent& event) override {
    Answer::Choice& c = answer_.choices[static_cast<size_t>(event.choice)];
    EXPECT_EQ(c.finish, FinishReason::none) << "nothing follows the end";
    c.ids.insert(c.ids.end(), event.ids.begin(), event.ids.end());
    c.text += event.text;
    for (const TokenLogprob& l : event.logprobs) add(l, c.logprobs);
    c.finish = event.finish;
  }
  void on_embedding(const std::vector<float>& embedding) override {
    for (const float x : embedding) answer_.embedding.push_back(bits(x));
  }
  void on_done(const RequestSummary& summary) override {
    const std::lock_guard lock(mutex_);
    answer_.prompt_tokens = summary.prompt_tokens;
    answer_.completion_tokens = summary.completion_tokens;
    cached_tokens_ = summary.cached_tokens;
    done_ = true;
    wake_.notify_all();
  }
  Answer wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(wake_.wait_for(lock, std::chrono::minutes(2), [&] { return done_; }));
    return answer_;
  }
  int64_t cached_tokens() {
    wait();
    return cached_tokens_;
  }

 private:
  static void add(const TokenLogprob& l, std::vector<uint32_t>& out) {
    out.push_back(bits(l.logprob));
    for (const auto& [id, logprob] : l.top) {
      out.push_back(static_cast<uint32_t>(id));
      out.push_back(bits(logprob));
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  Answer answer_;
  int64_t cached_tokens_ = 0;
  bool done_ = false;
};

constexpr int64_t kContext = 256;

struct Setting {
  int threads = 1;
  int max_running = 64;
  int batch_tokens = 512;
  bool prefix_cache = false;
  int64_t pages = 0;  // about; 0: plenty
  int queue = 1000;
  Policy policy = Policy::priority;
  Batching batching = Batching::continuous;
  uint64_t memory_floor = 0;
  int64_t swap_bytes = 0;
  Preemption preemption = Preemption::cheaper;
  KvType kv_type = KvType::f16;
  int page_tokens = kDefaultPageTokens;
};

// One engine over a random model.
class TestEngine {
 public:
  TestEngine(const Model& model, const Setting& s) : tokenizer_(model.config.vocabulary_size) {
    ServeExecOptions exec;
    exec.threads = s.threads;
    exec.context = kContext;
    exec.max_sequences = s.max_running;
    exec.step_rows = s.batch_tokens;
    exec.kv_memory = 64 << 20;
    exec.kv_type = s.kv_type;
    exec.page_tokens = s.page_tokens;
    if (s.pages > 0) {
      const KvShape shape = kv_shape(model, s.kv_type, {}, s.page_tokens);
      uint64_t page = 0;
      for (size_t g = 0; g < shape.groups.size(); ++g)
        page += static_cast<uint64_t>(shape.page_bytes(g));
      exec.kv_memory = page * static_cast<uint64_t>(s.pages);
    }
    LoopOptions loop;
    loop.scheduler.max_running = s.max_running;
    loop.scheduler.batch_tokens = s.batch_tokens;
    loop.scheduler.policy = s.policy;
    loop.scheduler.batching = s.batching;
    loop.scheduler.context = kContext;
    loop.queue = s.queue;
    loop.prefix_cache = s.prefix_cache;
    loop.memory_floor = s.memory_floor;
    loop.scheduler.preemption = s.preemption;
    loop.swap_bytes = s.swap_bytes;
    auto serve = std::make_unique<ServeExec>(model, exec);
    EXPECT_EQ(serve->context_length(), kContext);
    loop.context_length = serve->context_length();
    loop_ = std::make_unique<EngineLoop>(model, tokenizer_, std::vector<TokenId>{3},
                                         std::move(serve), loop);
  }

  std::shared_ptr<Collector> submit(const GenerationRequest& request) {
    auto sink = std::make_shared<Collector>(request.choices);
    EXPECT_EQ(loop_->submit(request, sink, last_id), Submit::accepted);
    return sink;
  }
  EngineLoop& loop() { return *loop_; }
  uint64_t last_id = 0;

 private:
  LetterTokenizer tokenizer_;
  std::unique_ptr<EngineLoop> loop_;
};

std::vector<TokenId> random_tokens(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random() % 211));
  return tokens;
}

// Requests of every kind; many of them begin alike.
GenerationRequest request_of(uint32_t number) {
  std::mt19937 random(number);
  GenerationRequest r;
  r.prompt = random_tokens(60, 99);
  r.prompt.resize(random() % 60);
  for (const TokenId id : random_tokens(1 + random() % 60, number)) r.prompt.push_back(id);
  r.max_tokens = 1 + random() % 90;
  r.sampling.seed = number;
  r.sampling.temperature = number % 4 == 0 ? 0 : 0.8;
  r.sampling.top_p = 0.95;
  r.sampling.ignore_eos = number % 3 != 0;
  if (number % 5 == 0) r.sampling.frequency_penalty = 0.7;
  if (number % 7 == 0) r.sampling.repetition_penalty = 1.3;
  r.top_logprobs = static_cast<int>(number % 3) - 1;
  r.prompt_logprobs = number % 6 == 5 && r.top_logprobs >= 0;
  r.choices = number % 8 == 1 ? 3 : 1;
  if (number % 9 == 2) r.stop = {"ab", "qz"};
  r.priority = static_cast<double>(number % 2);
  if (number % 10 == 3) r.kv_policy = KvPolicy{20, number % 20 == 3 ? 4 : 0};
  if (number % 11 == 4) {
    r = {};
    r.embedding = true;
    r.prompt = random_tokens(50 + number, number);
  }
  return r;
}

constexpr uint32_t kRequests = 40;

std::vector<Answer> run_all(TestEngine& engine) {
  std::vector<std::shared_ptr<Collector>> sinks;
  for (uint32_t i = 0; i < kRequests; ++i) sinks.push_back(engine.submit(request_of(i)));
  std::vector<Answer> answers;
  for (const auto& sink : sinks) answers.push_back(sink->wait());
  return answers;
}

std::vector<RandomModelOptions> models() {
  std::vector<RandomModelOptions> out(2);
  for (RandomModelOptions& m : out) {
    m.layers = 2;
    m.context = kContext;
  }
  out[1].window = 40;
  out[1].qk_norm = true;
  return out;
}

// Promise 1, over the engine's whole life of a request.
TEST(EngineLoop, AnswersDoNotDependOnWhatElseHappens) {
  for (const RandomModelOptions& options : models()) {
    const auto model = random_model(options);
    std::vector<Answer> alone;
    TestEngine solo(*model, {.max_running = 1});
    for (uint32_t i = 0; i < kRequests; ++i) {
      alone.push_back(solo.submit(request_of(i))->wait());
      EXPECT_EQ(alone.back().prompts_told, 1);
    }
    EXPECT_EQ(solo.loop().stats().preemptions, 0);
    const std::vector<Setting> settings = {
        {},
        {.threads = 2},
        {.threads = 3, .batch_tokens = 64},
        {.max_running = 7, .batch_tokens = 7},
        {.prefix_cache = true},
        {.max_running = 12, .batch_tokens = 64, .pages = 18},
        {.max_running = 12, .batch_tokens = 64, .prefix_cache = true, .pages = 18},
        {.max_running = 12,
         .batch_tokens = 64,
         .pages = 18,
         .swap_bytes = 1 << 30,
         .preemption = Preemption::swap},
        {.max_running = 12,
         .batch_tokens = 64,
         .prefix_cache = true,
         .pages = 18,
         .swap_bytes = 1 << 30,
         .preemption = Preemption::swap},
        {.threads = 2, .max_running = 12, .batch_tokens = 64, .pages = 18, .swap_bytes = 1 << 18},
        {.threads = 2,
         .max_running = 20,
         .batch_tokens = 64,
         .prefix_cache = true,
         .pages = 40,
         .policy = Policy::sjf},
        {.max_running = 9, .batching = Batching::static_padded},
        {.threads = 2,
         .max_running = 9,
         .batch_tokens = 64,
         .pages = 30,
         .batching = Batching::static_padded},
        {.max_running = 9, .pages = 40, .batching = Batching::static_dropped},
    };
    for (size_t s = 0; s < settings.size(); ++s) {
      TestEngine engine(*model, settings[s]);
      // Twice: the second time the prefix cache has everything it can hold.
      for (int round = 0; round < (settings[s].prefix_cache ? 2 : 1); ++round) {
        const std::vector<Answer> together = run_all(engine);
        for (uint32_t i = 0; i < kRequests; ++i)
          EXPECT_TRUE(together[i] == alone[i]) << "setting " << s << ", request " << i;
      }
      const EngineStats stats = engine.loop().stats();
      EXPECT_EQ(stats.pages_used, 0);
      if (settings[s].pages == 18) {
        EXPECT_GT(stats.preemptions, 0) << "setting " << s;
        if (settings[s].preemption == Preemption::swap) {
          EXPECT_EQ(stats.swaps, stats.preemptions) << "there is room for all";
          EXPECT_GT(stats.swap_read_bytes, 0);
        }
        EXPECT_EQ(stats.swap_used_bytes, 0) << "nothing stays in the file";
      } else if (settings[s].pages == 0 || settings[s].batching != Batching::continuous) {
        EXPECT_EQ(stats.preemptions, 0) << "setting " << s;
      }
      EXPECT_EQ(stats.padding_rows > 0, settings[s].batching == Batching::static_padded);
      EXPECT_GT(stats.prefix_hit_tokens, 0) << "choices share their prompt in any case";
      EXPECT_EQ(stats.pages_cached > 0, settings[s].prefix_cache);
    }
  }
}

// Raw bytes are swapped, whatever they mean: every KV type and page size, windows and sinks.
TEST(EngineLoop, PreemptedBySwapRecomputedOrNeverTheAnswerIsTheSame) {
  const auto model = random_model(models()[1]);
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::q8, KvType::q4}) {
    std::vector<GenerationRequest> requests;
    for (uint32_t i = 0; i < 14; ++i) {
      requests.push_back(request_of(i));
      const bool quantised = type == KvType::q8 || type == KvType::q4;
      if (quantised && requests.back().kv_policy) requests.back().kv_policy->sinks = 0;
    }
    const auto answers = [&](const Setting& setting) {
      TestEngine engine(*model, setting);
      std::vector<std::shared_ptr<Collector>> sinks;
      for (const GenerationRequest& r : requests) sinks.push_back(engine.submit(r));
      std::vector<Answer> out;
      for (const auto& sink : sinks) out.push_back(sink->wait());
      const EngineStats stats = engine.loop().stats();
      EXPECT_EQ(stats.preemptions > 0, setting.pages > 0);
      EXPECT_EQ(stats.swaps > 0, setting.preemption == Preemption::swap);
      return out;
    };
    Setting setting = {.max_running = 12, .batch_tokens = 64, .kv_type = type};
    const std::vector<Answer> never = answers(setting);
    setting.pages = 18;
    EXPECT_TRUE(answers(setting) == never) << "computed again, type " << static_cast<int>(type);
    setting.swap_bytes = 1 << 30;
    setting.preemption = Preemption::swap;
    EXPECT_TRUE(answers(setting) == never) << "swapped, type " << static_cast<int>(type);
    // Pages of 64 are too large for these answers to run short of them.
    setting.prefix_cache = true;
    for (const auto& [page_tokens, pages] : {std::pair{8, 36}, {32, 9}}) {
      setting.page_tokens = page_tokens;
      setting.pages = pages;
      EXPECT_TRUE(answers(setting) == never)
          << "swapped, type " << static_cast<int>(type) << ", pages of " << page_tokens;
    }
  }
}

TEST(EngineLoop, AnswersDoNotDependOnTheSizeOfPages) {
  for (const RandomModelOptions& options : models()) {
    const auto model = random_model(options);
    TestEngine usual(*model, {});
    const std::vector<Answer> want = run_all(usual);
    for (const int page_tokens : {8, 32, 64}) {
      TestEngine engine(*model, {.prefix_cache = true, .page_tokens = page_tokens});
      for (int round = 0; round < 2; ++round)
        EXPECT_TRUE(run_all(engine) == want) << "pages of " << page_tokens << ", round " << round;
      EXPECT_GT(engine.loop().stats().pages_cached, 0);
    }
  }
}

TEST(EngineLoop, APageSizeThatPagesDoNotHaveIsRefused) {
  const auto model = random_model(models()[0]);
  ServeExecOptions options;
  options.page_tokens = 12;
  try {
    ServeExec exec(*model, options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(
        e.what(),
        "--page-size: got 12 tokens, wanted one of 8, 16, 32, 64; without it pages hold 16");
  }
}

// Reads its events, and counts allocations of the whole process while its tokens first .. last
// come.
class AllocationWatch final : public ResultSink {
 public:
  AllocationWatch(int first, int last) : first_(first), last_(last) {}
  void on_token(const TokenEvent& event) override {
    characters_ += event.text.size();
    for (const TokenId id : event.ids) sum_of_ids_ += id;
    if (++tokens_ == first_) before_ = allocation_count();
    if (tokens_ == last_) allocations_ = allocation_count() - before_;
  }
  void on_done(const RequestSummary& /*summary*/) override {
    const std::lock_guard lock(mutex_);
    done_ = true;
    wake_.notify_all();
  }
  int64_t wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(wake_.wait_for(lock, std::chrono::minutes(2), [&] { return done_; }));
    EXPECT_GT(sum_of_ids_, 0);
    EXPECT_GE(characters_, static_cast<size_t>(last_));
    return allocations_;
  }

 private:
  const int first_, last_;
  int tokens_ = 0;
  int64_t before_ = 0, allocations_ = -1, sum_of_ids_ = 0;
  size_t characters_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
};

// The whole turn: plan, pass, draws, events, log, statistics.
TEST(EngineLoop, ASteadyStepAllocatesNothing) {
  const auto model = random_model(models()[1]);
  TestEngine engine(*model, {.threads = 2, .prefix_cache = true});
  GenerationRequest greedy;
  greedy.prompt = random_tokens(10, 1);
  greedy.max_tokens = 220;
  greedy.sampling.ignore_eos = true;
  greedy.sampling.temperature = 0;
  GenerationRequest drawn = greedy;
  drawn.sampling.temperature = 0.8;
  drawn.sampling.top_p = 0.9;
  drawn.choices = 3;
  drawn.stop = {"0", "a1"};  // looked for, and never there
  for (const GenerationRequest& request : {greedy, drawn}) {
    int64_t allocations = -1;
    // The first round finds the memory that the second one uses.
    for (int round = 0; round < 2; ++round) {
      const auto sink =
          std::make_shared<AllocationWatch>(60 * request.choices - 40, 200 * request.choices);
      uint64_t id = 0;
      ASSERT_EQ(engine.loop().submit(request, sink, id), Submit::accepted);
      allocations = sink->wait();
    }
    EXPECT_EQ(allocations, 0) << request.choices << " choices";
  }
}

TEST(EngineLoop, CachedTokensAreReported) {
  const auto model = random_model(models()[0]);
  TestEngine engine(*model, {.prefix_cache = true});
  GenerationRequest r;
  r.prompt = random_tokens(70, 1);
  r.max_tokens = 20;
  r.sampling.ignore_eos = true;
  r.sampling.temperature = 0;
  const auto first = engine.submit(r);
  const Answer turn = first->wait();
  EXPECT_EQ(first->cached_tokens(), 0);
  EXPECT_EQ(engine.submit(r)->cached_tokens(), 69) << "all but the token whose logits are wanted";
  // The next turn of a chat: the earlier ones, the answer and something new.
  for (const TokenId id : turn.choices[0].ids) r.prompt.push_back(id);
  for (const TokenId id : random_tokens(10, 2)) r.prompt.push_back(id);
  EXPECT_EQ(engine.submit(r)->cached_tokens(), 70 + 19) << "its last token was never an input";
  r.prompt_logprobs = true;
  r.top_logprobs = 0;
  EXPECT_EQ(engine.submit(r)->cached_tokens(), 0) << "every row is asked for";
  r.prompt_logprobs = false;
  r.key = 2;
  EXPECT_EQ(engine.submit(r)->cached_tokens(), 0) << "another key's";
  TestEngine without(*model, {.prefix_cache = false});
  without.submit(r)->wait();
  EXPECT_EQ(without.submit(r)->cached_tokens(), 0);
  EXPECT_EQ(without.loop().stats().pages_cached, 0);
}

TEST(EngineLoop, WhatWaitsCanEndToo) {
  const auto model = random_model(models()[0]);
  TestEngine engine(*model, {.max_running = 1, .queue = 3});
  GenerationRequest endless;
  endless.prompt = {1, 2};
  endless.sampling.ignore_eos = true;
  endless.choices = 30;  // one after the other
  const auto running = engine.submit(endless);
  endless.choices = 1;
  while (engine.loop().stats().running == 0) std::this_thread::yield();
  GenerationRequest late = endless;
  late.timeout_seconds = 0.01;
  const auto timed_out = engine.submit(late);
  const Answer waited = timed_out->wait();
  EXPECT_EQ(waited.choices[0].finish, FinishReason::timeout);
  EXPECT_EQ(waited.completion_tokens, 0);
  const auto cancelled = engine.submit(endless);
  engine.loop().cancel(engine.last_id);
  EXPECT_EQ(cancelled->wait().choices[0].finish, FinishReason::cancelled);
  for (const Answer::Choice& choice : running->wait().choices)
    EXPECT_EQ(choice.ids.size(), static_cast<size_t>(kContext - 2));
}

class ThrowsWhenCancelled final : public ResultSink {
 public:
  void on_prompt(const std::vector<TokenLogprob>& /*logprobs*/) override {}
  void on_token(const TokenEvent& event) override {
    if (event.finish == FinishReason::cancelled) throw std::runtime_error("as ordered");
  }
  void on_embedding(const std::vector<float>& /*embedding*/) override {}
  void on_done(const RequestSummary& /*summary*/) override {}
};

// A fault of ours outside a step: what runs fails and is told so, and the engine goes on.
TEST(EngineLoop, AFaultBetweenStepsIsNotTheEnd) {
  const auto model = random_model(models()[0]);
  TestEngine engine(*model, {.max_running = 2, .prefix_cache = true, .swap_bytes = 1 << 20});
  GenerationRequest r = request_of(1);
  const Answer want = engine.submit(r)->wait();
  GenerationRequest endless;
  endless.prompt = {1, 2};
  endless.sampling.ignore_eos = true;
  endless.choices = 30;
  const auto running = engine.submit(endless), waiting = engine.submit(endless);
  uint64_t id = 0;
  ASSERT_EQ(engine.loop().submit(endless, std::make_shared<ThrowsWhenCancelled>(), id),
            Submit::accepted);
  engine.loop().cancel(id);
  for (const auto& sink : {running, waiting})
    EXPECT_EQ(sink->wait().choices[29].finish, FinishReason::error);
  EXPECT_EQ(engine.loop().stats().pages_used, 0);
  EXPECT_EQ(engine.submit(r)->wait(), want);
}

TEST(EngineLoop, ShortMemoryRefusesWhatIsNew) {
  const auto model = random_model(models()[0]);
  TestEngine engine(*model, {.memory_floor = UINT64_MAX});
  GenerationRequest r;
  r.prompt = {1};
  r.max_tokens = 1;
  const auto sink = std::make_shared<Collector>(1);
  uint64_t id = 0;
  EXPECT_EQ(engine.loop().submit(r, sink, id), Submit::memory_low);
}

// A forward pass over the rest of a prompt whose beginning came out of the cache gives the same
// logits as the whole pass, for every length of that beginning.
TEST(PrefixCacheOfAModel, EveryCachedLengthGivesEqualLogits) {
  for (const RandomModelOptions& options : models()) {
    const auto model = random_model(options);
    ServeExecOptions exec_options;
    exec_options.threads = 1;
    exec_options.context = kContext;
    exec_options.kv_memory = 16 << 20;
    ServeExec exec(*model, exec_options);
    const std::vector<TokenId> tokens = random_tokens(70, 5);
    const auto n = static_cast<int64_t>(tokens.size());
    // Logits of rows [from, n) with the sequence's first `from` positions stored.
    const auto logits_from = [&](int32_t cache, int64_t from) {
      std::vector<int32_t> rest(tokens.begin() + from, tokens.end());
      std::vector<int32_t> positions(rest.size()), rows(rest.size());
      std::iota(positions.begin(), positions.end(), static_cast<int32_t>(from));
      std::iota(rows.begin(), rows.end(), 0);
      const SequenceRows part{0, static_cast<int32_t>(rest.size()), static_cast<int32_t>(from),
                              cache};
      const Tensor hidden =
          forward_hidden(exec, model->transformer, Batch{rest, positions, {&part, 1}});
      const Tensor logits = forward_logits(exec, model->transformer, hidden, rows);
      std::vector<uint32_t> out;
      for (int64_t r = 0; r < logits.rows; ++r)
        for (int64_t c = 0; c < logits.columns; ++c) out.push_back(bits(logits.row<float>(r)[c]));
      return out;
    };
    const int32_t whole = exec.create_cache();
    const std::vector<uint32_t> want = logits_from(whole, 0);
    const size_t row = want.size() / static_cast<size_t>(n);
    exec.release(whole);
    for (int64_t length = 1; length < n; ++length) {
      PrefixCache prefixes(exec.kv());
      const int32_t first = exec.create_cache();
      std::vector<int32_t> begin(tokens.begin(), tokens.begin() + length);
      std::vector<int32_t> positions(begin.size());
      std::iota(positions.begin(), positions.end(), 0);
      const SequenceRows part{0, static_cast<int32_t>(length), 0, first};
      forward_hidden(exec, model->transformer, Batch{begin, positions, {&part, 1}});
      prefixes.insert(first, 1, begin, true);
      exec.release(first);
      const int32_t next = exec.create_cache();
      ASSERT_EQ(prefixes.find(next, 1, tokens, n - 1), length);
      const std::vector<uint32_t> got = logits_from(next, length);
      EXPECT_TRUE(
          std::equal(got.begin(), got.end(),
                     want.begin() + static_cast<ptrdiff_t>(row * static_cast<size_t>(length))))
          << "window " << options.window << ", length " << length;
      exec.release(next);
    }
  }
}

}  // namespace
}  // namespace strata
