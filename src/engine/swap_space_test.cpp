#include "engine/swap_space.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace strata {
namespace {

TEST(ByteRanges, HandOutFirstFitAndMergeWhatComesBack) {
  ByteRanges ranges(100);
  EXPECT_EQ(ranges.take(40), 0);
  EXPECT_EQ(ranges.take(30), 40);
  EXPECT_EQ(ranges.take(31), std::nullopt);
  EXPECT_EQ(ranges.take(30), 70);
  EXPECT_EQ(ranges.used(), 100);
  ranges.give_back(0, 40);
  ranges.give_back(70, 30);
  EXPECT_EQ(ranges.take(41), std::nullopt) << "70 are free, in two pieces";
  ranges.give_back(40, 30);
  EXPECT_EQ(ranges.take(100), 0) << "all three are one";
}

// Against a plain map of owned bytes.
TEST(ByteRanges, NeverHandOutAByteTwice) {
  std::mt19937 random(5);
  constexpr int64_t kSize = 500;
  ByteRanges ranges(kSize);
  std::vector<bool> owned(kSize, false);
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0 || taken.empty()) {
      const int64_t bytes = 1 + random() % 60;
      const auto begin = ranges.take(bytes);
      if (!begin) continue;
      ASSERT_LE(*begin + bytes, kSize);
      for (int64_t b = *begin; b < *begin + bytes; ++b) {
        ASSERT_FALSE(owned[static_cast<size_t>(b)]);
        owned[static_cast<size_t>(b)] = true;
      }
      taken.emplace_back(*begin, bytes);
    } else {
      const size_t which = random() % taken.size();
      const auto [begin, bytes] = taken[which];
      ranges.give_back(begin, bytes);
      for (int64_t b = begin; b < begin + bytes; ++b) owned[static_cast<size_t>(b)] = false;
      taken.erase(taken.begin() + static_cast<ptrdiff_t>(which));
    }
    ASSERT_EQ(ranges.used(), std::count(owned.begin(), owned.end(), true));
  }
  for (const auto& [begin, bytes] : taken) ranges.give_back(begin, bytes);
  EXPECT_EQ(ranges.take(kSize), 0);
}

constexpr int64_t kBytes = 64 << 20;

KvPool pool_of(KvType type, int page_tokens = kDefaultPageTokens) {
  const KvShape shape = {.groups = {{0, 2}, {40, 1}},
                         .kv_heads = 2,
                         .head_size = 32,
                         .type = type,
                         .page_tokens = page_tokens};
  return {shape, {64, 64}, 64};
}

// Distinct bytes in every page that the sequence holds.
void fill(KvPool& pool, int32_t cache, uint32_t seed) {
  std::mt19937 random(seed);
  pool.for_each_seen_page(cache, [&](size_t group, int64_t, int32_t page) {
    for (std::byte& b : pool.page_memory(group, page)) b = static_cast<std::byte>(random());
  });
}

std::vector<std::byte> bytes_of(const KvPool& pool, int32_t cache) {
  std::vector<std::byte> out;
  pool.for_each_seen_page(cache, [&](size_t group, int64_t, int32_t page) {
    const auto bytes = pool.page_memory(group, page);
    out.insert(out.end(), bytes.begin(), bytes.end());
  });
  return out;
}

TEST(SwapSpace, GivesBackTheBytesOfEveryTypeLengthAndPolicy) {
  SwapSpace swap(testing::TempDir(), kBytes);
  for (const auto& [type, page_tokens] : {std::pair(KvType::f32, 16),
                                          {KvType::f16, 8},
                                          {KvType::f16, 16},
                                          {KvType::q8, 32},
                                          {KvType::q4, 64}})
    for (const KvPolicy policy : {KvPolicy{}, KvPolicy{20, 0}, KvPolicy{24, 4}})
      for (const int64_t tokens : {1, 15, 16, 17, 31, 39, 40, 41, 64, 120, 333}) {
        KvPool pool = pool_of(type, page_tokens);
        int32_t cache = pool.create(0, policy);
        for (int64_t at = 0; at < tokens; at += std::min<int64_t>(64, tokens - at))
          ASSERT_TRUE(pool.append(cache, std::min<int64_t>(64, tokens - at)));
        fill(pool, cache, static_cast<uint32_t>(tokens));
        const std::vector<std::byte> want = bytes_of(pool, cache);
        EXPECT_EQ(static_cast<int64_t>(want.size()), pool.seen_bytes(cache));
        const auto pages = swap.write(pool, cache);
        ASSERT_TRUE(pages);
        EXPECT_EQ(swap.used_bytes(), pool.seen_bytes(cache));
        pool.release(cache);
        EXPECT_EQ(pool.used_pages(), 0);
        // Its old pages belong to somebody else now.
        const int32_t other = pool.create();
        ASSERT_TRUE(pool.append(other, 64));
        fill(pool, other, 1);
        const std::vector<std::byte> others = bytes_of(pool, other);
        cache = pool.create(0, policy);
        ASSERT_TRUE(pool.extend(cache, tokens));
        EXPECT_EQ(pool.length(cache), tokens);
        ASSERT_TRUE(swap.read(pool, cache, 0, *pages));
        swap.give_back(*pages);
        EXPECT_TRUE(bytes_of(pool, cache) == want) << tokens << " tokens";
        EXPECT_TRUE(bytes_of(pool, other) == others);
        // It goes on, and gives everything back at the end.
        ASSERT_TRUE(pool.append(cache, 1));
        ASSERT_TRUE(pool.append(cache, 64));
        pool.release(cache);
        pool.release(other);
        EXPECT_EQ(pool.used_pages(), 0);
      }
  EXPECT_EQ(swap.used_bytes(), 0);
  EXPECT_GT(swap.written_bytes(), 0);
  EXPECT_EQ(swap.written_bytes(), swap.read_bytes());
}

TEST(SwapSpace, ReadsOnlyWhatIsMissing) {
  SwapSpace swap(testing::TempDir(), kBytes);
  for (const auto& [have, page_tokens] :
       {std::pair(0, 16), {50, 16}, {99, 16}, {100, 16}, {99, 8}, {100, 32}}) {
    KvPool pool = pool_of(KvType::f16, page_tokens);
    const int32_t first = pool.create();
    ASSERT_TRUE(pool.append(first, 64));
    ASSERT_TRUE(pool.append(first, 36));
    fill(pool, first, 7);
    const std::vector<std::byte> want = bytes_of(pool, first);
    const auto pages = swap.write(pool, first);
    ASSERT_TRUE(pages);
    // The window of 40 has dropped what a fork at less than 99 would need.
    const int32_t again = pool.create();
    ASSERT_EQ(pool.fork(again, first, have), have >= 99) << have;
    const int64_t got = pool.length(again);
    const int64_t read_before = swap.read_bytes();
    ASSERT_TRUE(pool.extend(again, 100));
    ASSERT_TRUE(swap.read(pool, again, got, *pages));
    EXPECT_TRUE(bytes_of(pool, again) == want) << have;
    EXPECT_TRUE(bytes_of(pool, first) == want) << "shared pages are as they were";
    if (got > 0) {
      EXPECT_LT(swap.read_bytes() - read_before, pages->bytes / 2);
    }
    swap.give_back(*pages);
  }
}

TEST(SwapSpace, ExtendingTakesNothingWithoutPages) {
  KvPool pool = pool_of(KvType::f16);
  const int32_t big = pool.create();
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(pool.append(big, 64));
  const int32_t cache = pool.create();
  EXPECT_FALSE(pool.extend(cache, 65)) << "4 pages are left, 5 are needed";
  EXPECT_EQ(pool.length(cache), 0);
  EXPECT_TRUE(pool.page_table(cache, 0).empty());
  EXPECT_TRUE(pool.extend(cache, 64));
}

TEST(SwapSpace, RoomIsBoundedAndTheFileHasNoName) {
  const std::string folder = testing::TempDir() + "/swap-test";
  std::filesystem::create_directory(folder);
  KvPool pool = pool_of(KvType::f16);
  const int32_t cache = pool.create();
  ASSERT_TRUE(pool.append(cache, 64));
  {
    SwapSpace swap(folder, pool.seen_bytes(cache) + 1);
    EXPECT_TRUE(swap.seconds_to_swap(pool, cache));
    const auto pages = swap.write(pool, cache);
    ASSERT_TRUE(pages);
    EXPECT_FALSE(swap.seconds_to_swap(pool, cache)) << "it is full";
    EXPECT_FALSE(swap.write(pool, cache));
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    swap.give_back(*pages);
    EXPECT_TRUE(swap.seconds_to_swap(pool, cache));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST(SwapSpace, AFolderThatIsNotThereIsRefused) {
  try {
    SwapSpace swap("/nowhere/at/all", kBytes);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("/nowhere/at/all"), std::string::npos);
  }
}

// Every write to /dev/full fails as on a full disk.
TEST(SwapSpace, AFullDiskPausesIt) {
  const int file = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  SwapSpace swap(file, "/dev/full", kBytes);
  KvPool pool = pool_of(KvType::f16);
  const int32_t cache = pool.create();
  ASSERT_TRUE(pool.append(cache, 64));
  EXPECT_FALSE(swap.seconds_to_swap(pool, cache)) << "the measurement at the start failed";
  EXPECT_FALSE(swap.write(pool, cache));
  EXPECT_EQ(swap.used_bytes(), 0);
}

TEST(SwapSpace, AFileThatLostItsEndIsNotRead) {
  std::string name = testing::TempDir() + "/swap-XXXXXX";
  const int file = ::mkstemp(name.data());
  ASSERT_GE(file, 0);
  SwapSpace swap(file, name, kBytes);
  KvPool pool = pool_of(KvType::f16);
  const int32_t cache = pool.create();
  ASSERT_TRUE(pool.append(cache, 64));
  const auto pages = swap.write(pool, cache);
  ASSERT_TRUE(pages);
  ASSERT_EQ(::truncate(name.c_str(), pages->bytes - 1), 0);
  const int32_t again = pool.create();
  ASSERT_TRUE(pool.extend(again, 64));
  EXPECT_FALSE(swap.read(pool, again, 0, *pages));
  EXPECT_FALSE(swap.seconds_to_swap(pool, cache)) << "not tried again at once";
  swap.give_back(*pages);
  ::unlink(name.c_str());
}

}  // namespace
}  // namespace strata
