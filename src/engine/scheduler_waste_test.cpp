// How much memory is held for nothing under a load of real lengths.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/scheduler_playground_for_test.h"

namespace strata {
namespace {

using scheduler_test::Playground;

// Quantiles 0, 5 % .. 100 % of AzureLLMInferenceTrace_conv.csv (2023, 19,366 requests; Azure Public
// Dataset, CC-BY 4.0): tokens of prompts and answers. Their means are 1,155 and 211.
constexpr std::array<double, 21> kPrompts = {2,    181,  207,  372,  387,  396,  403,
                                             414,  703,  984,  1020, 1045, 1071, 1097,
                                             1130, 1189, 1315, 1876, 2734, 4083, 14050};
constexpr std::array<double, 21> kAnswers = {7,   41,  54,  67,  77,  85,  91,  96,  103, 113, 129,
                                             151, 177, 217, 384, 395, 400, 411, 424, 451, 1000};

int64_t draw(const std::array<double, 21>& quantiles, std::mt19937& random) {
  const double at = 20 * static_cast<double>(random()) / 4294967296.0;
  const auto i = static_cast<size_t>(at);
  const double share = at - static_cast<double>(i);
  return std::llround(quantiles[i] * (1 - share) + quantiles[i + 1] * share);
}

struct Load {
  int64_t pages = 0;
  bool prefix_cache = false;
  std::vector<KvShape::Group> groups = {{0, 1}};
};

// Bytes wasted (KvPool::waste_bytes) over bytes held by running sequences, both summed over all
// steps of 250 requests, 24 at once.
double wasted_share(const Load& load, int64_t& preemptions) {
  std::mt19937 random(11);
  Playground play({.max_running = 24, .batch_tokens = 512}, load.pages, load.prefix_cache,
                  load.groups);
  double wasted = 0, held = 0;
  int submitted = 0, steps = 0;
  while (submitted < 250 || !play.active().empty()) {
    while (submitted < 250 && play.active().size() < 30) {
      std::vector<TokenId> prompt(static_cast<size_t>(draw(kPrompts, random)));
      for (TokenId& id : prompt) id = static_cast<TokenId>(random() % 100);
      play.submit(std::move(prompt), draw(kAnswers, random));
      ++submitted;
    }
    play.step();
    const KvPool& pool = play.pool();
    const bool looks = ++steps % 16 == 0;
    std::set<std::pair<size_t, int32_t>> live;
    for (const auto& request : play.active()) {
      const Sequence& s = *request->sequences[0];
      if (!s.running()) continue;
      wasted += static_cast<double>(pool.waste_bytes(s.cache));
      for (size_t g = 0; looks && g < load.groups.size(); ++g)
        for (const int32_t page : pool.page_table(s.cache, g))
          if (page >= 0) live.emplace(g, page);
    }
    held += static_cast<double>(pool.held_bytes());
    if (!looks) continue;
    EXPECT_EQ(static_cast<int64_t>(live.size()), pool.used_pages())
        << "every page in use is in the table of a request that lives";
    EXPECT_EQ(pool.cached_pages() > 0 && !load.prefix_cache, false);
  }
  preemptions = play.scheduler().preemptions();
  return wasted / held;
}

TEST(Scheduler, WastesAtMostOnePercentAtTheLengthsOfRealConversations) {
  int64_t preemptions = 0;
  const double plenty = wasted_share({.pages = 5000}, preemptions);
  EXPECT_LE(plenty, 0.01);
  EXPECT_GT(plenty, 0.003) << "half a page of an answer's 1,260 tokens: it is counted at all";
  EXPECT_EQ(preemptions, 0);
  EXPECT_LE(wasted_share({.pages = 5000, .prefix_cache = true}, preemptions), 0.01);
  // Short of pages, so that sequences are preempted and some come back with a reservation.
  EXPECT_LE(wasted_share({.pages = 1400}, preemptions), 0.01);
  EXPECT_GT(preemptions, 0);
  EXPECT_LE(wasted_share({.pages = 1400, .prefix_cache = true}, preemptions), 0.01);
  EXPECT_GT(preemptions, 0);
  RecordProperty("percent", std::to_string(100 * plenty));
}

// What the figure consists of, by hand, with 16 tokens a page.
TEST(KvPool, WasteIsWhatIsHeldForNothing) {
  const KvShape shape{
      .groups = {{0, 1}, {20, 2}}, .kv_heads = 1, .head_size = 16, .type = KvType::f32};
  KvPool pool(shape, {100, 100}, 64);
  const int64_t token = shape.layer_page_bytes() / shape.page_tokens;
  const int32_t a = pool.create();
  EXPECT_EQ(pool.waste_bytes(a), 0);
  ASSERT_TRUE(pool.append(a, 20));  // two pages, 12 places empty in each of 3 layers
  EXPECT_EQ(pool.waste_bytes(a), 12 * 3 * token);
  ASSERT_TRUE(pool.append(a, 30));  // 50: 14 empty; the window holds pages from 20 - 19 on
  EXPECT_EQ(pool.waste_bytes(a), 14 * token + (64 - 20) * 2 * token);
  ASSERT_TRUE(pool.append(a, 14));  // 64, and what is behind 50's window goes: 16 .. 63 stay
  EXPECT_EQ(pool.waste_bytes(a), (48 - 20) * 2 * token);
  const int32_t b = pool.create();
  ASSERT_TRUE(pool.fork(b, a, 50));  // two of its 50 are a copy, and 14 places are empty
  EXPECT_EQ(pool.waste_bytes(b), (14 + 2) * token + (48 - 20 + 2) * 2 * token);
  const int64_t before = pool.waste_bytes(b);
  ASSERT_TRUE(pool.reserve(b, 80));
  EXPECT_EQ(pool.waste_bytes(b), before + 16 * 3 * token) << "a page in each group is promised";
}

}  // namespace
}  // namespace strata
