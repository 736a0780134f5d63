#include "engine/scheduler.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/allocation_count_for_test.h"
#include "engine/scheduler_playground_for_test.h"

namespace strata {
namespace {

using scheduler_test::Playground;
using scheduler_test::prompt_of;

std::vector<uint64_t> ids(const std::vector<PlannedRows>& planned) {
  std::vector<uint64_t> out;
  for (const PlannedRows& p : planned) out.push_back(p.request->id);
  return out;
}

TEST(Scheduler, StreamsGoFirstThenChunksUnderTheBudget) {
  Playground play({.max_running = 8, .batch_tokens = 32}, 100, false);
  play.submit(prompt_of(10), 20);
  play.step();
  play.submit(prompt_of(40, 1), 5);
  play.submit(prompt_of(7, 2), 5);
  std::vector<PlannedRows> planned = play.step();
  ASSERT_EQ(ids(planned), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(planned[0].rows, 1);
  EXPECT_EQ(planned[1].rows, 31);
  planned = play.step();
  ASSERT_EQ(ids(planned), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(planned[1].rows, 9) << "nothing is known of the time of steps: one chunk at a time";
}

TEST(Scheduler, ChoicesShareThePromptsPages) {
  for (const bool prefix_cache : {false, true}) {
    Playground play({.max_running = 8, .batch_tokens = 64}, 100, prefix_cache);
    GenerationRequest four;
    four.choices = 4;
    play.submit(prompt_of(40), 10, four);
    EXPECT_EQ(play.step().size(), 1u) << "the first choice reads the prompt";
    const std::vector<PlannedRows> planned = play.step();
    ASSERT_EQ(planned.size(), 4u);
    for (const PlannedRows& p : planned) EXPECT_EQ(p.rows, 1);
    // 2 full pages shared by all, and 1 of each.
    EXPECT_EQ(play.pool().used_pages(), 2 + 4);
    while (!play.active().empty()) play.step();
    EXPECT_EQ(play.ended[0]->summary.cached_tokens, 0);
    EXPECT_EQ(play.pool().used_pages(), 0);
  }
}

// The pages that choices share are the tree's, also those of a prompt read row by row, which puts
// nothing there before it ends: else another request's equal page could come to stand above them.
TEST(Scheduler, ChoicesSharePagesOfTheTree) {
  Playground play({.max_running = 8, .batch_tokens = 3}, 100, true);
  // Two streams leave one row of a step to the prompt.
  play.submit({1}, 70);
  play.submit({2}, 70);
  play.step();
  GenerationRequest two;
  two.choices = 2;
  const std::vector<TokenId> prompt = prompt_of(64);
  const ActiveRequest& request = play.submit(prompt, 40, two);
  const auto in_tree = [&] { return play.cache()->view(request.request.key, prompt).size(); };
  for (int step = 0; step < 64; ++step) play.step();
  EXPECT_EQ(request.sequences[0]->length, 64);
  EXPECT_EQ(in_tree(), 0u);
  for (int step = 0; step < 10 && !request.sequences[1]->running(); ++step) play.step();
  ASSERT_TRUE(request.sequences[0]->running() && request.sequences[1]->running());
  EXPECT_EQ(in_tree(), 4u);
  while (!play.active().empty()) play.step();
  EXPECT_EQ(play.pool().used_pages(), 0);
}

TEST(Scheduler, ShortestJobFirst) {
  Playground play({.max_running = 1, .batch_tokens = 64, .policy = Policy::sjf}, 100, false);
  play.submit(prompt_of(60), 10);
  play.submit(prompt_of(20), 10);
  play.submit(prompt_of(20), 5);
  while (!play.active().empty()) play.step();
  std::vector<uint64_t> order;
  for (const auto& r : play.ended) order.push_back(r->id);
  EXPECT_EQ(order, (std::vector<uint64_t>{3, 2, 1}));
}

// A flood of requests that the policy prefers; how many steps of a second until the other one is
// done?
int steps_until_done(Policy policy, GenerationRequest low, int64_t low_size, GenerationRequest high,
                     int64_t high_size) {
  Playground play({.max_running = 1, .batch_tokens = 1024, .policy = policy}, 1000, false);
  play.submit(prompt_of(high_size), 1, high);
  play.submit(prompt_of(low_size), 1, low);
  for (int step = 1; step < 500; ++step) {
    play.submit(prompt_of(high_size), 1, high);
    play.step();
    play.pass_time(1);
    for (const auto& r : play.ended)
      if (r->id == 2) return step;
  }
  return 500;
}

TEST(Scheduler, NothingStarves) {
  GenerationRequest low, high;
  low.priority = -1;
  high.priority = 1;
  // 2 units of priority are 2 * kAgeingSeconds = 10 s, at one request a second.
  const int priority = steps_until_done(Policy::priority, low, 10, high, 10);
  EXPECT_GT(priority, 5);
  EXPECT_LE(priority, 2 * Scheduler::kAgeingSeconds + 2);
  // 900 tokens more are 900 / kSjfAgeingTokens = 9 s.
  const int sjf = steps_until_done(Policy::sjf, {}, 910, {}, 10);
  EXPECT_GT(sjf, 5);
  EXPECT_LE(sjf, 900 / Scheduler::kSjfAgeingTokens + 2);
  EXPECT_EQ(steps_until_done(Policy::fcfs, low, 10, high, 10), 2);
}

TEST(Scheduler, KeysGetFairShares) {
  // Key 1 has 20 requests waiting before key 2 comes with 5: they take turns.
  Playground play({.max_running = 1, .batch_tokens = 1024, .policy = Policy::fcfs}, 1000, false);
  GenerationRequest one, two;
  one.key = 1;
  two.key = 2;
  for (int i = 0; i < 20; ++i) play.submit(prompt_of(600), 1, one);
  play.step();
  for (int i = 0; i < 5; ++i) play.submit(prompt_of(600), 1, two);
  while (!play.active().empty()) play.step();
  size_t last_of_two = 0;
  for (size_t i = 0; i < play.ended.size(); ++i)
    if (play.ended[i]->request.key == 2) last_of_two = i;
  EXPECT_LE(last_of_two, 10u);
}

TEST(Scheduler, ABlockedRequestIsNotOvertaken) {
  Playground play({.max_running = 8, .batch_tokens = 512, .policy = Policy::fcfs}, 10, false);
  play.submit(prompt_of(100), 40);
  play.step();
  play.submit(prompt_of(100, 1), 4);  // 7 pages, 3 are free
  play.submit(prompt_of(4, 2), 4);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ids(play.step()), (std::vector<uint64_t>{1}));
  while (!play.active().empty()) play.step();
  EXPECT_EQ(play.ended.size(), 3u);
  EXPECT_EQ(play.ended[0]->id, 1u);
}

TEST(Scheduler, AStepWithStreamsKeepsToTheTarget) {
  // A machine of 1 ms a row: 100 ms are 100 rows, of which a margin is kept for late steps.
  Playground play({.max_running = 8, .batch_tokens = 512, .itl_target_seconds = 0.1}, 4000, false);
  play.submit(prompt_of(10), 2000);
  play.submit(prompt_of(20'000), 1);
  std::vector<PlannedRows> planned;
  int64_t most = 0;
  for (int i = 0; i < 60; ++i) {
    planned = play.scheduler().plan(play.active(), EngineClock::time_point());
    int64_t rows = 0;
    for (const PlannedRows& p : planned) {
      rows += p.rows;
      ASSERT_TRUE(play.pool().append(p.sequence->cache, p.rows));
      p.sequence->length += p.rows;
      if (p.request->left(*p.sequence) == 0) p.sequence->generated.push_back(1);
    }
    play.scheduler().finish_step(0.001 * static_cast<double>(rows));
    if (i > 10) most = std::max(most, rows);
  }
  EXPECT_GE(most, 75);
  EXPECT_LE(most, 78);
}

// What was planned in each step until all is done: rows by request, and rows of padding (as of
// request 0).
using Rows = std::map<uint64_t, int64_t>;
std::vector<Rows> all_steps(Playground& play) {
  std::vector<Rows> out;
  while (!play.active().empty()) {
    const int64_t before = play.scheduler().padding_rows();
    Rows rows;
    for (const PlannedRows& p : play.step()) rows[p.request->id] += p.rows;
    if (const int64_t padding = play.scheduler().padding_rows() - before) rows[0] = padding;
    out.push_back(rows);
    if (out.size() > 1000) break;
  }
  return out;
}

TEST(Scheduler, APaddedBatchIsAsLongAsItsLongestRow) {
  Playground play({.max_running = 2, .batch_tokens = 10, .batching = Batching::static_padded}, 100,
                  false);
  play.submit(prompt_of(12), 3);
  play.submit(prompt_of(5, 1), 4);
  play.submit(prompt_of(3, 2), 2);
  // 1 and 2 read 12 tokens each, in steps of 10; then both generate: 1 ends with 3 tokens, 2 with
  // 4, of which the prompt's last row drew the first. 3 comes when both are done.
  const std::vector<Rows> want = {
      {{1, 10}},        {{1, 2}, {2, 5}, {0, 3}}, {{0, 4}}, {{1, 1}, {2, 1}},
      {{1, 1}, {2, 1}}, {{2, 1}, {0, 1}},         {{3, 3}}, {{3, 1}}};
  EXPECT_EQ(all_steps(play), want);
  EXPECT_EQ(play.pool().used_pages(), 0);
}

TEST(Scheduler, ABatchWithRowsDroppedComputesNothingInVain) {
  Playground play({.max_running = 2, .batch_tokens = 10, .batching = Batching::static_dropped}, 100,
                  false);
  play.submit(prompt_of(12), 3);
  play.submit(prompt_of(5, 1), 4);
  play.submit(prompt_of(3, 2), 2);
  const std::vector<Rows> want = {{{1, 10}}, {{1, 2}, {2, 5}}, {{1, 1}, {2, 1}}, {{1, 1}, {2, 1}},
                                  {{2, 1}},  {{3, 3}},         {{3, 1}}};
  EXPECT_EQ(all_steps(play), want);
}

TEST(Scheduler, BucketsKeepLikeLengthsTogether) {
  Playground play({.max_running = 3,
                   .batch_tokens = 100,
                   .policy = Policy::fcfs,
                   .batching = Batching::static_padded,
                   .length_buckets = true},
                  100, false);
  play.submit(prompt_of(20), 1);     // 16..31
  play.submit(prompt_of(60, 1), 1);  // 32..63
  play.submit(prompt_of(17, 2), 1);
  play.submit(prompt_of(31, 3), 1);
  const std::vector<Rows> want = {{{1, 20}, {3, 17}, {4, 31}, {0, 11 + 14}}, {{2, 60}}};
  EXPECT_EQ(all_steps(play), want);
}

TEST(Scheduler, ABatchHoldsWhatFitsTogether) {
  // Each of them needs 3 of the 9 pages for itself; padded, 1 needs 5, and 2 3 with 2 of padding.
  for (const Batching batching : {Batching::static_padded, Batching::static_dropped}) {
    Playground play({.max_running = 8, .batch_tokens = 200, .batching = batching}, 9, false);
    play.submit(prompt_of(40), 5);
    play.submit(prompt_of(15, 1), 30);
    play.submit(prompt_of(15, 2), 30);
    const size_t together = play.step().size();
    EXPECT_EQ(together, batching == Batching::static_padded ? 1u : 3u);
    while (!play.active().empty()) play.step();
    EXPECT_EQ(play.scheduler().preemptions(), 0);
    EXPECT_EQ(play.pool().used_pages(), 0);
  }
}

// Random requests, choices, cancellations, priorities and keys in pools down to the smallest.
// Whatever happens: a planned step has its pages, everything ends with what was asked for, nobody
// is preempted more often than promised, and no page is lost.
void run_random_operations(uint32_t seed, int64_t pages, bool prefix_cache,
                           std::vector<KvShape::Group> groups,
                           Batching batching = Batching::continuous, SwapSpace* swap = nullptr) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << pages << " pages, prefix cache "
                                  << prefix_cache << ", " << groups.size() << " groups, batching "
                                  << static_cast<int>(batching));
  std::mt19937 random(seed);
  const auto policy = static_cast<Policy>(seed % 3);
  const KvShape shape{.groups = groups, .kv_heads = 1, .head_size = 1, .type = KvType::f32};
  const int64_t context = std::min<int64_t>(
      KvPool(shape, std::vector<int64_t>(groups.size(), pages), 48).longest_sequence(), 400);
  Playground play({.max_running = 6,
                   .batch_tokens = 48,
                   .policy = policy,
                   .batching = batching,
                   .length_buckets = seed % 2 == 0,
                   .context = context,
                   .preemption = swap != nullptr ? Preemption::swap : Preemption::cheaper},
                  pages, prefix_cache, groups, swap);
  size_t cancelled = 0, submitted = 0;
  for (int step = 0; step < 1500; ++step) {
    if (step < 900 && random() % 6 == 0) {
      const auto prompt = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(context - 1));
      const auto room = static_cast<uint64_t>(context - prompt);
      GenerationRequest request;
      request.choices = random() % 4 == 0 ? 3 : 1;
      request.priority = static_cast<double>(random() % 3);
      request.key = 1 + random() % 2;
      request.embedding = random() % 10 == 0;
      request.prompt_logprobs = !request.embedding && random() % 8 == 0;
      if (request.embedding) request.choices = 1;
      play.submit(prompt_of(prompt, static_cast<TokenId>(random() % 2)),
                  static_cast<int64_t>(1 + random() % room), request);
      ++submitted;
    }
    if (!play.active().empty() && random() % 40 == 0) {
      play.cancel(*play.active()[random() % play.active().size()]);
      ++cancelled;
    }
    const bool work = !play.active().empty();
    play.step();
    EXPECT_EQ(play.last_rows > 0, work) << "step " << step;
    play.pass_time(0.05);
    for (const auto& r : play.active())
      for (const auto& s : r->sequences) ASSERT_LE(s->preemptions, Scheduler::kMostPreemptions);
  }
  for (int step = 0; step < 100'000 && !play.active().empty(); ++step) play.step();
  EXPECT_EQ(play.ended.size(), submitted);
  EXPECT_GT(submitted, 100u);
  EXPECT_GT(cancelled, 5u);
  for (const auto& r : play.ended)
    for (const auto& s : r->sequences)
      if (s->finish == FinishReason::length) {
        // Each token depends on the position it was drawn at: none twice, none left out.
        ASSERT_EQ(static_cast<int64_t>(s->generated.size()), r->max_tokens);
        for (size_t i = 0; i < s->generated.size(); ++i)
          ASSERT_EQ(s->generated[i],
                    static_cast<TokenId>(
                        ((r->prompt_size() + static_cast<int64_t>(i)) * 7 + s->choice) % 100));
      }
  EXPECT_EQ(play.pool().used_pages(), 0);
  if (prefix_cache) play.cache()->clear();
  for (size_t g = 0; g < groups.size(); ++g) EXPECT_EQ(play.pool().available_pages(g), pages);
  if (batching != Batching::continuous) {
    EXPECT_EQ(play.scheduler().preemptions(), 0);
    EXPECT_EQ(play.scheduler().padding_rows() > 0, batching == Batching::static_padded);
  } else if (pages < 60) {
    EXPECT_GT(play.scheduler().preemptions(), 0);
  }
}

// Two answers that do not fit together, with a swap space over `file`.
void swap_over(int file, const std::string& name, bool damage) {
  SwapSpace swap(file, name, 1 << 20);
  Playground play({.max_running = 4, .batch_tokens = 64, .preemption = Preemption::swap}, 6, false,
                  {{0, 1}}, &swap);
  ActiveRequest& first = play.submit(prompt_of(40), 40);
  ActiveRequest& second = play.submit(prompt_of(20, 3), 40);
  play.step();
  while (play.scheduler().preemptions() == 0) play.step();
  if (damage) {
    EXPECT_TRUE(second.sequences[0]->swapped.has_value());
    ASSERT_EQ(::truncate(name.c_str(), 10), 0);
  }
  const auto drawn = second.sequences[0]->generated.size();
  EXPECT_GT(drawn, 0u);
  while (!play.active().empty()) play.step();
  EXPECT_EQ(play.ended[0].get(), &first);
  for (const auto& r : play.ended) {
    ASSERT_EQ(r->sequences[0]->generated.size(), 40u);
    for (size_t i = 0; i < 40; ++i)
      EXPECT_EQ(r->sequences[0]->generated[i],
                static_cast<TokenId>((r->prompt_size() + static_cast<int64_t>(i)) * 7 % 100));
  }
  EXPECT_EQ(play.pool().used_pages(), 0);
  EXPECT_EQ(swap.used_bytes(), 0);
  EXPECT_EQ(play.scheduler().swaps() > 0, damage);
}

TEST(Scheduler, WhatCannotBeSwappedIsComputedAgain) {
  const int full = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  ASSERT_GE(full, 0);
  swap_over(full, "/dev/full", false);
  std::string name = testing::TempDir() + "/scheduler-swap-XXXXXX";
  const int file = ::mkstemp(name.data());
  ASSERT_GE(file, 0);
  swap_over(file, name, true);
  ::unlink(name.c_str());
}

TEST(Scheduler, ASwappedAnswerReadsNothingAgainAndLeavesNothingBehind) {
  SwapSpace swap(testing::TempDir(), 1 << 20);
  Playground play({.max_running = 4, .batch_tokens = 64, .preemption = Preemption::swap}, 6, false,
                  {{0, 1}}, &swap);
  play.submit(prompt_of(40), 40);
  ActiveRequest& second = play.submit(prompt_of(20, 3), 40);
  int64_t rows = 0;
  while (play.scheduler().preemptions() == 0) {
    play.step();
    rows += play.last_rows;
  }
  const int64_t stored = second.sequences[0]->swapped->tokens;
  EXPECT_EQ(stored, second.known_size(*second.sequences[0]) - 1);
  while (!play.active().empty()) {
    play.step();
    rows += play.last_rows;
  }
  EXPECT_EQ(rows, 40 + 39 + 20 + 39) << "every position once";
  EXPECT_EQ(swap.read_bytes(), swap.written_bytes());
  // Cancelled while its pages are in the file.
  play.submit(prompt_of(40), 40);
  ActiveRequest& third = play.submit(prompt_of(20, 3), 40);
  while (!third.sequences[0]->swapped) play.step();
  EXPECT_GT(swap.used_bytes(), 0);
  play.cancel(third);
  EXPECT_EQ(swap.used_bytes(), 0);
}

// The file is measured in bytes a second, the model in rows a second; the playground's steps take
// 10 ms of no time at all, and its pages are tiny.
TEST(Scheduler, SwapsWhereThatIsCheaper) {
  SwapSpace swap(testing::TempDir(), 1 << 20);
  Playground play({.max_running = 4, .batch_tokens = 64}, 6, false, {{0, 1}}, &swap);
  for (int i = 0; i < 8; ++i) {  // until steps with prompts are known
    play.submit(prompt_of(40), 1);
    while (!play.active().empty()) play.step();
  }
  play.submit(prompt_of(40), 40);
  play.submit(prompt_of(20, 3), 40);
  while (!play.active().empty()) play.step();
  EXPECT_GT(play.scheduler().preemptions(), 0);
  EXPECT_EQ(play.scheduler().swaps(), play.scheduler().preemptions());
}

TEST(Scheduler, KeepsItsPromisesUnderRandomOperations) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    for (const bool prefix_cache : {false, true}) {
      run_random_operations(seed, 26, prefix_cache, {{0, 1}});
      run_random_operations(seed, 40, prefix_cache, {{0, 1}});
      run_random_operations(seed, 400, prefix_cache, {{0, 1}});
      run_random_operations(seed, 40, prefix_cache, {{0, 1}, {50, 1}});
    }
  }
}

TEST(Scheduler, KeepsItsPromisesWithASwapSpaceThatIsOftenFull) {
  for (uint32_t seed = 1; seed <= 3; ++seed)
    for (const bool prefix_cache : {false, true}) {
      SwapSpace swap(testing::TempDir(), 30'000);  // some 27 pages
      const auto continuous = Batching::continuous;
      run_random_operations(seed, 26, prefix_cache, {{0, 1}}, continuous, &swap);
      run_random_operations(seed, 40, prefix_cache, {{0, 1}, {50, 1}}, continuous, &swap);
      EXPECT_EQ(swap.used_bytes(), 0) << "also of the cancelled";
      EXPECT_GT(swap.read_bytes(), 0);
    }
}

TEST(Scheduler, StaticBatchesKeepTheirPromisesUnderRandomOperations) {
  for (const Batching batching : {Batching::static_padded, Batching::static_dropped}) {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      run_random_operations(seed, 26, false, {{0, 1}}, batching);
      run_random_operations(seed, 400, false, {{0, 1}}, batching);
      run_random_operations(seed, 40, false, {{0, 1}, {50, 1}}, batching);
    }
  }
}

TEST(Scheduler, ASteadyStepAllocatesNothing) {
  Playground play({.max_running = 8, .batch_tokens = 64}, 400, true);
  for (TokenId i = 0; i < 8; ++i) {
    ActiveRequest& request = play.submit(prompt_of(20, i), 300);
    request.sequences[0]->generated.reserve(300);
  }
  const auto step = [&] {
    for (const PlannedRows& p : play.scheduler().plan(play.active(), EngineClock::time_point())) {
      ASSERT_TRUE(play.pool().append(p.sequence->cache, p.rows));
      p.sequence->length += p.rows;
      if (p.request->left(*p.sequence) == 0) p.sequence->generated.push_back(1);
    }
    play.scheduler().finish_step(0.01);
  };
  for (int i = 0; i < 40; ++i) step();
  const int64_t before = allocation_count();
  for (int i = 0; i < 100; ++i) step();
  EXPECT_EQ(allocation_count() - before, 0);
}

}  // namespace
}  // namespace strata
