#include "engine/kv_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "base/error.h"

namespace strata {
namespace {

KvShape two_groups(int page_tokens = kDefaultPageTokens) {
  return {.groups = {{0, 2}, {40, 3}}, .kv_heads = 2, .head_size = 8, .page_tokens = page_tokens};
}

TEST(PageAllocator, CountsReferences) {
  PageAllocator pages(2);
  const int32_t a = pages.allocate().value();
  const int32_t b = pages.allocate().value();
  EXPECT_NE(a, b);
  EXPECT_EQ(pages.allocate(), std::nullopt);
  pages.retain(a);
  EXPECT_FALSE(pages.release(a));
  EXPECT_EQ(pages.free(), 0);
  EXPECT_TRUE(pages.release(a));
  EXPECT_EQ(pages.allocate(), a);
  EXPECT_EQ(pages.held(), 2);
}

TEST(PageAllocator, AgreesWithAModel) {
  std::mt19937 random(7);
  PageAllocator pages(37);
  std::map<int32_t, int> model;  // page -> references
  for (int step = 0; step < 20'000; ++step) {
    const auto choice = random() % 3;
    if (choice == 0) {
      const auto page = pages.allocate();
      EXPECT_EQ(page.has_value(), model.size() < 37);
      if (page) {
        EXPECT_EQ(model.count(*page), 0u);
        model[*page] = 1;
      }
    } else if (!model.empty()) {
      const auto it = std::next(model.begin(), static_cast<ptrdiff_t>(random() % model.size()));
      if (choice == 1 && it->second < 5) {
        pages.retain(it->first);
        ++it->second;
      } else {
        const bool last = --it->second == 0;
        EXPECT_EQ(pages.release(it->first), last);
        if (last) model.erase(it);
      }
    }
    ASSERT_EQ(pages.held(), static_cast<int64_t>(model.size()));
  }
}

TEST(PageAllocator, TheCachesReferenceAgreesWithAModel) {
  std::mt19937 random(11);
  PageAllocator pages(20);
  struct State {
    int users = 0;
    bool kept = false;
  };
  std::map<int32_t, State> model;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 4 == 0) {
      if (const auto page = pages.allocate()) {
        EXPECT_EQ(model.count(*page), 0u);
        model[*page] = {1, false};
      }
    } else if (!model.empty()) {
      const auto it = std::next(model.begin(), static_cast<ptrdiff_t>(random() % model.size()));
      State& s = it->second;
      const auto choice = random() % 4;
      if (choice == 0 && s.users < 4) {
        pages.retain(it->first);
        ++s.users;
      } else if (choice == 1 && !s.kept) {
        pages.keep(it->first);
        s.kept = true;
      } else if (choice == 2 && s.kept) {
        EXPECT_EQ(pages.forget(it->first), s.users == 0);
        s.kept = false;
      } else if (choice == 3 && s.users > 0) {
        --s.users;
        EXPECT_EQ(pages.release(it->first), s.users == 0 && !s.kept);
      }
      if (s.users == 0 && !s.kept) model.erase(it);
    }
    int64_t cached = 0;
    for (const auto& [page, s] : model) cached += s.users == 0;
    ASSERT_EQ(pages.cached(), cached);
    ASSERT_EQ(pages.free(), 20 - static_cast<int64_t>(model.size()));
    ASSERT_EQ(pages.held(), static_cast<int64_t>(model.size()) - cached);
  }
}

TEST(KvPool, AForkSharesFullPagesAndCopiesTheLast) {
  KvPool pool(two_groups(), {20, 20}, 64);
  const int32_t a = pool.create();
  ASSERT_TRUE(pool.append(a, 40));
  for (size_t g = 0; g < 2; ++g) {
    std::byte* page = pool.layer_base(g, 0) + pool.shape().page_bytes(g) * pool.page_table(a, g)[2];
    std::fill_n(page, pool.shape().page_bytes(g), std::byte{42});
  }
  const int32_t b = pool.create();
  ASSERT_TRUE(pool.fork(b, a, 39));
  EXPECT_EQ(pool.length(b), 39);
  for (size_t g = 0; g < 2; ++g) {
    EXPECT_EQ(pool.page_table(b, g)[0], pool.page_table(a, g)[0]);
    EXPECT_EQ(pool.page_table(b, g)[1], pool.page_table(a, g)[1]);
    ASSERT_NE(pool.page_table(b, g)[2], pool.page_table(a, g)[2]);
    const std::byte* page =
        pool.layer_base(g, 0) + pool.shape().page_bytes(g) * pool.page_table(b, g)[2];
    EXPECT_EQ(std::count(page, page + pool.shape().page_bytes(g), std::byte{42}),
              pool.shape().page_bytes(g));
  }
  EXPECT_EQ(pool.used_pages(), 2 * 4);
  pool.release(a);
  EXPECT_EQ(pool.used_pages(), 2 * 3);
  pool.release(b);
  EXPECT_EQ(pool.used_pages(), 0);
}

TEST(KvPool, AForkNeedsWhatItSees) {
  KvPool pool({.groups = {{20, 1}}, .kv_heads = 1, .head_size = 4}, {20}, 64);
  const int32_t a = pool.create();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pool.append(a, 1));
  const int32_t b = pool.create();
  EXPECT_FALSE(pool.fork(b, a, 60)) << "the window has passed it";
  EXPECT_TRUE(pool.fork(b, a, 100));
  EXPECT_EQ(pool.page_table(b, 0)[4], -1);
}

TEST(KvPool, NoPageForTheCopyChangesNothing) {
  KvPool pool({.groups = {{0, 1}}, .kv_heads = 1, .head_size = 4}, {3}, 64);
  const int32_t a = pool.create(), b = pool.create();
  ASSERT_TRUE(pool.append(a, 40));
  EXPECT_FALSE(pool.fork(b, a, 39));
  EXPECT_EQ(pool.length(b), 0);
  EXPECT_EQ(pool.used_pages(), 3);
  EXPECT_TRUE(pool.fork(b, a, 32));
  pool.release(a);
  EXPECT_EQ(pool.used_pages(), 2);
}

TEST(KvShape, BytesFollowTheFormula) {
  for (const int tokens : kPageSizes) {
    const auto bytes = [&](int layers, int kv_heads, int head_size, KvType type) {
      return KvShape{.groups = {{0, layers}},
                     .kv_heads = kv_heads,
                     .head_size = head_size,
                     .type = type,
                     .page_tokens = tokens}
          .page_bytes(0);
    };
    // 2 * Hk * Dh * bytes per token and layer, Dh of the values rounded up to 16.
    EXPECT_EQ(bytes(30, 3, 64, KvType::f16), 2 * 30 * 3 * 64 * 2 * tokens);
    EXPECT_EQ(bytes(1, 1, 10, KvType::f32), (10 + 16) * 4 * tokens);
    // Quantised: codes, and for 32 elements of a key or value one f16 (q8) or two (q4).
    EXPECT_EQ(bytes(30, 3, 64, KvType::q8), 2 * 30 * 3 * (64 + 2 * 2) * tokens);
    EXPECT_EQ(bytes(30, 3, 64, KvType::q4), 2 * 30 * 3 * (32 + 2 * 4) * tokens);
  }
}

class PageSizes : public testing::TestWithParam<int> {};

TEST_P(PageSizes, WindowedGroupsGivePagesBack) {
  const int64_t page_tokens = GetParam();
  KvPool pool(two_groups(GetParam()), {100, 100}, 16);
  const int32_t cache = pool.create();
  int64_t length = 0;
  for (int step = 0; step < 60; ++step) {
    const int64_t rows = 1 + step % 16;
    ASSERT_TRUE(pool.append(cache, rows));
    const auto full = pool.page_table(cache, 0), windowed = pool.page_table(cache, 1);
    ASSERT_EQ(static_cast<int64_t>(full.size()), (length + rows + page_tokens - 1) / page_tokens);
    ASSERT_EQ(windowed.size(), full.size());
    for (size_t i = 0; i < windowed.size(); ++i) {
      EXPECT_GE(full[i], 0);
      // The first new row sees positions > length - 40.
      const bool seen = (static_cast<int64_t>(i) + 1) * page_tokens - 1 > length - 40;
      EXPECT_EQ(windowed[i] >= 0, seen) << i << " at " << length;
    }
    length += rows;
    EXPECT_EQ(pool.length(cache), length);
  }
  pool.release(cache);
  EXPECT_EQ(pool.used_pages(), 0);
  EXPECT_FALSE(pool.is_open(cache));
}

TEST_P(PageSizes, BytesHeldByAWindowStayConstant) {
  KvPool pool({.groups = {{64, 1}}, .kv_heads = 1, .head_size = 4, .page_tokens = GetParam()}, {50},
              1);
  const int32_t cache = pool.create();
  int64_t most = 0;
  for (int i = 0; i < 640; ++i) {
    ASSERT_TRUE(pool.append(cache, 1));
    most = std::max(most, pool.used_pages());
  }
  EXPECT_EQ(most, 64 / GetParam() + 1) << "pages that 64 positions touch";
}

// Reservations are kept whatever the others do, tables never share a page, nothing leaks.
TEST_P(PageSizes, PromisesAreKeptUnderRandomOperations) {
  const int64_t full = 60 * 16 / GetParam(), windowed = 25 * 16 / GetParam() + 3;
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    std::mt19937 random(seed);
    KvPool pool(two_groups(GetParam()), {full, windowed}, 20);
    struct State {
      int64_t length = 0, reserved = 0;
    };
    std::map<int32_t, State> model;
    int refused = 0, kept = 0;
    for (int step = 0; step < 5'000; ++step) {
      const auto choice = random() % 10;
      if (choice == 0 && model.size() < 12) {
        const int32_t cache = pool.create();
        EXPECT_EQ(model.count(cache), 0u);
        model[cache] = {};
      }
      if (model.empty()) continue;
      const auto it = std::next(model.begin(), static_cast<ptrdiff_t>(random() % model.size()));
      State& s = it->second;
      if (choice == 1) {
        pool.release(it->first);
        model.erase(it);
      } else if (choice <= 3) {
        const int64_t tokens = s.length + static_cast<int64_t>(random() % 300);
        if (pool.reserve(it->first, tokens))
          s.reserved = tokens;
        else
          ++refused;
      } else {
        const auto rows = static_cast<int64_t>(1 + random() % 20);
        const bool promised = s.length + rows <= s.reserved;
        const bool done = pool.append(it->first, rows);
        ASSERT_TRUE(done || !promised) << "seed " << seed << " step " << step;
        if (done) s.length += rows;
        kept += promised;
        refused += !done;
      }
      for (size_t g = 0; g < 2; ++g) {
        std::set<int32_t> live;
        size_t count = 0;
        for (const auto& [cache, state] : model) {
          ASSERT_EQ(pool.length(cache), state.length);
          for (const int32_t page : pool.page_table(cache, g))
            if (page >= 0) {
              live.insert(page);
              ++count;
            }
        }
        ASSERT_EQ(live.size(), count);
        ASSERT_GE(pool.available_pages(g), 0);
      }
    }
    EXPECT_GT(refused, 20);
    EXPECT_GT(kept, 200);
    for (const auto& [cache, state] : model) pool.release(cache);
    EXPECT_EQ(pool.used_pages(), 0);
    EXPECT_EQ(pool.available_pages(0), full);
    EXPECT_EQ(pool.available_pages(1), windowed);
  }
}

INSTANTIATE_TEST_SUITE_P(KvPool, PageSizes, testing::ValuesIn(kPageSizes));

TEST(KvPool, PlansWithinTheBudget) {
  const KvShape shape = two_groups();
  const uint64_t budget = 3'000'000;
  const auto pages = plan_kv_pages(shape, budget, 4096, 8, 64);
  uint64_t cost = 0;
  for (size_t g = 0; g < 2; ++g)
    cost += static_cast<uint64_t>(pages[g]) * static_cast<uint64_t>(shape.page_bytes(g));
  EXPECT_LE(cost, budget);
  EXPECT_GT(cost, budget - 5000);
  EXPECT_EQ(pages[1], 8 * ((40 + 64 + 15) / 16 + 1));  // no more than 8 windows
  // Plenty of memory: no more than 8 whole contexts.
  EXPECT_EQ(plan_kv_pages(shape, uint64_t{1} << 40, 4096, 8, 64)[0], 8 * 256);
  try {
    plan_kv_pages(shape, 1000, 4096, 8, 64);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::resource_exhausted);
    EXPECT_NE(std::string(e.what()).find("1000"), std::string::npos);
  }
}

TEST(KvPool, LongestSequence) {
  EXPECT_EQ(KvPool(two_groups(), {10, 10}, 16).longest_sequence(), 160);
  EXPECT_EQ(KvPool(two_groups(), {10, 3}, 16).longest_sequence(), 48);
  EXPECT_EQ(KvPool(two_groups(64), {10, 10}, 16).longest_sequence(), 640);
}

}  // namespace
}  // namespace strata
