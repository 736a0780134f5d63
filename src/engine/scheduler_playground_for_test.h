#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/letter_tokenizer_for_test.h"
#include "engine/scheduler.h"

namespace strata::scheduler_test {

// Plays the engine's loop without a model: lengths grow, tokens come from the sequence's past, time
// stands still unless a test moves it.
class Playground {
 public:
  Playground(const SchedulerOptions& options, int64_t pages, bool prefix_cache,
             std::vector<KvShape::Group> groups = {{0, 1}}, SwapSpace* swap = nullptr)
      : options_(options),
        pool_({.groups = groups, .kv_heads = 1, .head_size = 1, .type = KvType::f32},
              std::vector<int64_t>(groups.size(), pages), options.batch_tokens),
        cache_(prefix_cache ? std::make_unique<PrefixCache>(pool_) : nullptr),
        scheduler_(options, pool_, cache_.get(), swap) {}

  ActiveRequest& submit(std::vector<TokenId> prompt, int64_t max_tokens,
                        GenerationRequest base = {}) {
    auto request = std::make_unique<ActiveRequest>();
    request->id = ++last_id_;
    request->submitted = now_;
    request->request = std::move(base);
    request->request.prompt = std::move(prompt);
    request->max_tokens = max_tokens;
    for (int i = 0; i < request->request.choices; ++i)
      request->sequences.push_back(std::make_unique<Sequence>(i, tokenizer_, request->request));
    active_.push_back(std::move(request));
    return *active_.back();
  }

  // Returns what was planned; ended requests are gone, and in `ended`.
  std::vector<PlannedRows> step() {
    const std::vector<PlannedRows> planned = scheduler_.plan(active_, now_);
    int64_t rows = 0, running = 0;
    for (const PaddingRows& p : scheduler_.padding()) {
      EXPECT_GT(p.rows, 0);
      rows += p.rows;
      EXPECT_EQ(pool_.length(p.cache), p.length);
      EXPECT_TRUE(pool_.append(p.cache, p.rows)) << "nor does its padding";
    }
    for (const PlannedRows& p : planned) {
      EXPECT_GT(p.rows, 0);
      EXPECT_TRUE(p.sequence->running());
      EXPECT_LE(p.rows, p.request->left(*p.sequence));
      rows += p.rows;
      EXPECT_EQ(pool_.length(p.sequence->cache), p.sequence->length);
      EXPECT_TRUE(pool_.append(p.sequence->cache, p.rows)) << "a planned step never lacks pages";
      p.sequence->length += p.rows;
      if (p.request->left(*p.sequence) > 0) continue;
      Sequence& s = *p.sequence;
      s.generated.push_back(static_cast<TokenId>((s.length * 7 + s.choice) % 100));
      if (static_cast<int64_t>(s.generated.size()) == p.request->max_tokens)
        s.finish = FinishReason::length;
    }
    for (const auto& request : active_)
      for (const auto& s : request->sequences) running += s->running();
    EXPECT_LE(running, options_.max_running);
    EXPECT_LE(rows, options_.batch_tokens);
    last_rows = rows;
    scheduler_.finish_step(0.01);
    retire();
    return planned;
  }

  void cancel(ActiveRequest& request) {
    for (const auto& s : request.sequences)
      if (s->finish == FinishReason::none) s->finish = FinishReason::cancelled;
    retire();
  }
  void pass_time(double seconds) {
    now_ +=
        std::chrono::duration_cast<EngineClock::duration>(std::chrono::duration<double>(seconds));
  }

  std::vector<std::unique_ptr<ActiveRequest>>& active() { return active_; }
  std::vector<std::unique_ptr<ActiveRequest>> ended;
  int64_t last_rows = 0;  // of the last step, with padding
  KvPool& pool() { return pool_; }
  Scheduler& scheduler() { return scheduler_; }
  PrefixCache* cache() { return cache_.get(); }

 private:
  void retire() {
    for (auto& request : active_)
      for (auto& s : request->sequences)
        if (s->finish != FinishReason::none) scheduler_.release(*request, *s);
    for (auto it = active_.begin(); it != active_.end();) {
      if (!(*it)->finished()) {
        ++it;
        continue;
      }
      ended.push_back(std::move(*it));
      it = active_.erase(it);
    }
  }

  SchedulerOptions options_;
  LetterTokenizer tokenizer_{100};
  KvPool pool_;
  std::unique_ptr<PrefixCache> cache_;
  Scheduler scheduler_;
  std::vector<std::unique_ptr<ActiveRequest>> active_;
  EngineClock::time_point now_ = EngineClock::time_point() + std::chrono::hours(1);
  uint64_t last_id_ = 0;
};

inline std::vector<TokenId> prompt_of(int64_t size, TokenId first = 0) {
  std::vector<TokenId> out;
  for (int64_t i = 0; i < size; ++i) out.push_back((first + static_cast<TokenId>(i)) % 100);
  return out;
}

}  // namespace strata::scheduler_test
