#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "engine/written_pool_for_test.h"

namespace strata {
namespace {

Tokens counting(int64_t count, TokenId first = 0) {
  Tokens out;
  for (int64_t i = 0; i < count; ++i) out.push_back(first + static_cast<TokenId>(i));
  return out;
}

TEST(PrefixCache, FindsEveryLengthToTheToken) {
  WrittenPool memory({{0, 1}}, 64);
  PrefixCache cache(memory.pool());
  const Tokens tokens = counting(50);
  const int32_t first = memory.pool().create();
  ASSERT_TRUE(memory.write(first, tokens, 50));
  cache.insert(first, 1, tokens, true);
  memory.pool().release(first);
  EXPECT_EQ(memory.pool().used_pages(), 0);
  EXPECT_EQ(memory.pool().cached_pages(), 4);
  for (int64_t same = 0; same <= 50; ++same) {
    Tokens other = tokens;
    for (size_t i = static_cast<size_t>(same); i < other.size(); ++i) other[i] += 1000;
    const int32_t next = memory.pool().create();
    EXPECT_EQ(cache.find(next, 1, other, 49), std::min<int64_t>(same, 49));
    EXPECT_TRUE(memory.check(next, other));
    // What it writes from there on changes nothing for the others.
    ASSERT_TRUE(memory.write(next, other, 50));
    EXPECT_TRUE(memory.check(next, other));
    memory.pool().release(next);
    const int32_t again = memory.pool().create();
    EXPECT_EQ(cache.find(again, 1, tokens, 50), 50);
    EXPECT_TRUE(memory.check(again, tokens));
    memory.pool().release(again);
  }
}

TEST(PrefixCache, ASaltKeepsPrefixesApart) {
  WrittenPool memory({{0, 1}}, 64);
  PrefixCache cache(memory.pool(), {counting(40)});
  const Tokens tokens = counting(80);
  const int32_t first = memory.pool().create();
  ASSERT_TRUE(memory.write(first, tokens, 80));
  cache.insert(first, 1, tokens, true);
  memory.pool().release(first);
  const auto found = [&](uint32_t salt) {
    const int32_t next = memory.pool().create();
    const int64_t length = cache.find(next, salt, tokens, 79);
    EXPECT_TRUE(memory.check(next, tokens));
    memory.pool().release(next);
    return length;
  };
  EXPECT_EQ(found(1), 79);
  EXPECT_EQ(found(2), 32) << "the whole pages of the 40 declared tokens";
}

TEST(PrefixCache, EqualPagesBecomeOne) {
  WrittenPool memory({{0, 1}}, 64);
  PrefixCache cache(memory.pool());
  const Tokens tokens = counting(48);
  std::vector<int32_t> sequences;
  for (int i = 0; i < 3; ++i) {
    sequences.push_back(memory.pool().create());
    ASSERT_TRUE(memory.write(sequences.back(), tokens, 48));
  }
  EXPECT_EQ(memory.pool().used_pages(), 9);
  for (const int32_t s : sequences) cache.insert(s, 1, tokens, false);
  EXPECT_EQ(memory.pool().used_pages(), 3);
  for (const int32_t s : sequences) {
    EXPECT_TRUE(memory.check(s, tokens));
    memory.pool().release(s);
  }
  EXPECT_EQ(memory.pool().used_pages(), 0);
  EXPECT_EQ(memory.pool().cached_pages(), 3);
}

TEST(PrefixCache, TheLeastRecentlyUsedLeafGoesFirst) {
  WrittenPool memory({{0, 1}}, 6);
  PrefixCache cache(memory.pool());
  const auto put = [&](TokenId first) {
    const Tokens tokens = counting(32, first);
    const int32_t s = memory.pool().create();
    EXPECT_TRUE(memory.write(s, tokens, 32));
    cache.insert(s, 1, tokens, true);
    memory.pool().release(s);
  };
  const auto held = [&](TokenId first) {
    const int32_t s = memory.pool().create();
    const int64_t length = cache.find(s, 1, counting(32, first), 32);
    memory.pool().release(s);
    return length;
  };
  put(0);
  put(100);
  put(200);
  EXPECT_EQ(held(0), 32);  // now 100 is the oldest
  const int32_t s = memory.pool().create();
  ASSERT_TRUE(memory.write(s, counting(48, 300), 48));
  EXPECT_EQ(held(100), 0);
  EXPECT_EQ(held(200), 16) << "only its last page had to go";
  EXPECT_EQ(held(0), 32);
  // Nothing that a sequence uses is given back.
  const int32_t user = memory.pool().create();
  EXPECT_EQ(cache.find(user, 1, counting(32, 0), 32), 32);
  EXPECT_TRUE(memory.write(s, counting(64, 300), 64));
  EXPECT_FALSE(memory.write(s, counting(80, 300), 80));
  EXPECT_TRUE(memory.check(user, counting(32, 0)));
}

TEST(PrefixCache, AWindowedGroupHitsOnlyWhereItStillHolds) {
  // A sequence of 100 tokens whose window of 20 has dropped its first pages.
  WrittenPool memory({{0, 1}, {20, 1}}, 64);
  PrefixCache cache(memory.pool());
  const Tokens tokens = counting(120);
  const int32_t s = memory.pool().create();
  for (int64_t end = 1; end <= 100; ++end) ASSERT_TRUE(memory.write(s, tokens, end));
  cache.insert(s, 1, tokens, true);
  memory.pool().release(s);
  // The last append, at length 99, kept positions from 80 on: page 5 and later.
  const auto found = [&](int64_t most) {
    const int32_t next = memory.pool().create();
    const int64_t length = cache.find(next, 1, tokens, most);
    EXPECT_TRUE(memory.check(next, tokens));
    memory.pool().release(next);
    return length;
  };
  EXPECT_EQ(found(120), 100);
  EXPECT_EQ(found(99), 99);  // a query at 99 sees positions from 80 on
  EXPECT_EQ(found(98), 0);   // one at 98 sees 79, which nobody has
}

// What was put in, as plain lists: the reference for a pool that never runs short.
class Reference {
 public:
  Reference(Tokens declared, int page_tokens)
      : declared_(std::move(declared)), page_tokens_(page_tokens) {}
  void insert(uint32_t salt, Tokens tokens) { entries_.emplace_back(salt, std::move(tokens)); }
  int64_t find(uint32_t salt, const Tokens& tokens, int64_t most) const {
    int64_t best = 0;
    for (const auto& [owner, entry] : entries_) {
      const int64_t length = common(entry, tokens);
      const int64_t shared = common(declared_, entry) / page_tokens_ * page_tokens_;
      best = std::max(best, owner == salt ? length : std::min(length, shared));
    }
    return std::min(best, most);
  }

 private:
  static int64_t common(const Tokens& a, const Tokens& b) {
    int64_t i = 0;
    while (i < static_cast<int64_t>(std::min(a.size(), b.size())) &&
           a[static_cast<size_t>(i)] == b[static_cast<size_t>(i)])
      ++i;
    return i;
  }
  Tokens declared_;
  int64_t page_tokens_;
  std::vector<std::pair<uint32_t, Tokens>> entries_;
};

struct Live {
  Tokens tokens;
  uint32_t salt = 1;
};

// Random sequences over two letters, so that they share a lot, come, grow, are taken up and go.
void run_random_operations(uint32_t seed, std::vector<KvShape::Group> groups, int64_t pages,
                           int page_tokens = kDefaultPageTokens) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << pages << " pages of "
                                  << page_tokens);
  std::mt19937 random(seed);
  const Tokens declared = {0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1};
  WrittenPool memory(groups, pages, page_tokens);
  KvPool& pool = memory.pool();
  PrefixCache cache(pool, {declared});
  Reference reference(declared, page_tokens);
  const bool exact = pages > 10'000 && groups.size() == 1;
  std::map<int32_t, Live> live;
  int64_t hits = 0, refused = 0;
  for (int step = 0; step < 2'000; ++step) {
    const auto choice = random() % 8;
    if (choice < 2 && live.size() < 10) {
      Live s;
      s.salt = 1 + random() % 2;
      if (random() % 2 == 0) s.tokens = declared;
      if (!live.empty() && random() % 2 == 0)
        s.tokens =
            std::next(live.begin(), static_cast<ptrdiff_t>(random() % live.size()))->second.tokens;
      s.tokens.resize(std::min<size_t>(s.tokens.size(), random() % 120));
      const auto size = static_cast<int64_t>(1 + random() % 150);
      while (static_cast<int64_t>(s.tokens.size()) < size)
        s.tokens.push_back(static_cast<TokenId>(random() % 2));
      const int32_t handle = pool.create();
      const int64_t most = static_cast<int64_t>(s.tokens.size()) - 1;
      const int64_t length = cache.find(handle, s.salt, s.tokens, most);
      if (exact) {
        ASSERT_EQ(length, reference.find(s.salt, s.tokens, most)) << "step " << step;
      } else {
        ASSERT_LE(length, reference.find(s.salt, s.tokens, most)) << "step " << step;
      }
      ASSERT_EQ(pool.length(handle), length);
      ASSERT_TRUE(memory.check(handle, s.tokens)) << "step " << step;
      hits += length;
      live[handle] = std::move(s);
    }
    if (live.empty()) continue;
    const auto it = std::next(live.begin(), static_cast<ptrdiff_t>(random() % live.size()));
    auto& [handle, s] = *it;
    const int64_t length = pool.length(handle);
    if (choice < 5) {
      const int64_t end = length + 1 + static_cast<int64_t>(random() % 40);
      while (static_cast<int64_t>(s.tokens.size()) < end)
        s.tokens.push_back(static_cast<TokenId>(random() % 2));
      if (!memory.write(handle, s.tokens, end)) ++refused;
    } else if (choice < 7) {
      cache.insert(handle, s.salt, s.tokens, false);
      Tokens whole_pages = s.tokens;
      whole_pages.resize(static_cast<size_t>(length / page_tokens * page_tokens));
      reference.insert(s.salt, whole_pages);
    } else {
      cache.insert(handle, s.salt, s.tokens, true);
      Tokens held = s.tokens;
      held.resize(static_cast<size_t>(length));
      reference.insert(s.salt, held);
      pool.release(handle);
      live.erase(it);
    }
    for (const auto& [other, state] : live)
      ASSERT_TRUE(memory.check(other, state.tokens)) << "step " << step;
    ASSERT_LE(pool.used_pages() + pool.cached_pages(), pool.total_pages());
  }
  EXPECT_GT(hits, 1000);
  if (!exact) {
    EXPECT_GT(refused, 10);
  }
  for (const auto& [handle, state] : live) pool.release(handle);
  EXPECT_EQ(pool.used_pages(), 0);
  cache.clear();
  EXPECT_EQ(cache.nodes(), 0);
  EXPECT_EQ(pool.cached_pages(), 0);
  for (size_t g = 0; g < groups.size(); ++g) EXPECT_EQ(pool.available_pages(g), pages);
}

TEST(PrefixCache, AgreesWithAReferenceUnderRandomOperations) {
  for (uint32_t seed = 1; seed <= 3; ++seed) run_random_operations(seed, {{0, 1}}, 20'000);
  for (const int page_tokens : {8, 32, 64}) run_random_operations(4, {{0, 1}}, 20'000, page_tokens);
}

TEST(PrefixCache, IsNeverWrongWhenPagesAreShort) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    run_random_operations(seed, {{0, 1}}, 40);
    run_random_operations(seed, {{0, 1}, {24, 1}}, 40);
    run_random_operations(seed, {{24, 1}}, 16);
  }
  // Few enough pages that sequences are refused, and enough that some are found again.
  for (const auto& [page_tokens, pages, windowed] :
       {std::array{8, 80, 34}, {32, 20, 14}, {64, 12, 12}}) {
    run_random_operations(5, {{0, 1}, {24, 1}}, pages, page_tokens);
    run_random_operations(6, {{24, 1}}, windowed, page_tokens);
  }
}

}  // namespace
}  // namespace strata
