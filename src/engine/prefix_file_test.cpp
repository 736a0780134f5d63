#include "engine/prefix_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "engine/written_pool_for_test.h"

namespace strata {
namespace {

Tokens counting(int64_t count, TokenId first) {
  Tokens out;
  for (int64_t i = 0; i < count; ++i) out.push_back(first + static_cast<TokenId>(i));
  return out;
}

std::optional<std::string> owner(uint32_t salt) {
  return salt == 3 ? std::nullopt : std::optional<std::string>("key " + std::to_string(salt));
}
std::optional<uint32_t> salt_of(const std::string& name) {
  return name == "key 1"   ? std::optional<uint32_t>(1)
         : name == "key 2" ? std::optional<uint32_t>(7)
                           : std::nullopt;
}

class PrefixFileTest : public testing::Test {
 protected:
  void SetUp() override { made_by["model"] = "abc"; }
  void TearDown() override { std::filesystem::remove(path); }

  void remember(WrittenPool& memory, PrefixCache& cache, uint32_t salt, const Tokens& tokens) {
    const int32_t handle = memory.pool().create();
    // Fed in pieces, so that windows drop what is behind them.
    for (int64_t end = 1; end <= static_cast<int64_t>(tokens.size()); ++end)
      ASSERT_TRUE(memory.write(handle, tokens, end));
    cache.insert(handle, salt, tokens, true);
    memory.pool().release(handle);
  }
  int64_t found(WrittenPool& memory, PrefixCache& cache, uint32_t salt, const Tokens& tokens) {
    const int32_t handle = memory.pool().create();
    const int64_t length = cache.find(handle, salt, tokens, static_cast<int64_t>(tokens.size()));
    EXPECT_TRUE(memory.check(handle, tokens));
    memory.pool().release(handle);
    return length;
  }
  std::string bytes() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& content) const { std::ofstream(path, std::ios::binary) << content; }
  ErrorCode error_of_reading() {
    WrittenPool memory({{0, 1}}, 64);
    PrefixCache cache(memory.pool());
    try {
      read_prefixes(path, made_by, memory.pool(), cache, salt_of, 1000);
    } catch (const Error& e) {
      EXPECT_EQ(cache.nodes(), 0);
      EXPECT_EQ(memory.pool().cached_pages(), 0);
      return e.code();
    }
    return ErrorCode::internal;
  }

  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("strata_prefixes_" + std::to_string(getpid()));
  OrderedJson made_by;
};

TEST_F(PrefixFileTest, GivesBackWhatItWasGiven) {
  using Groups = std::vector<KvShape::Group>;
  const Groups full{{0, 1}}, with_window{{0, 1}, {40, 2}};
  for (const auto& [groups, page_tokens] :
       {std::pair(full, 16), {with_window, 16}, {with_window, 8}, {full, 64}}) {
    WrittenPool memory(groups, 64, page_tokens), other(groups, 64, page_tokens);
    PrefixCache cache(memory.pool()), restored(other.pool());
    const Tokens one = counting(100, 0), two = counting(45, 500);
    Tokens branch = one;
    for (size_t i = 50; i < branch.size(); ++i) branch[i] += 300;
    remember(memory, cache, 1, one);
    remember(memory, cache, 1, branch);
    remember(memory, cache, 2, two);
    remember(memory, cache, 3, two);
    write_prefixes(path, {made_by, {1, 2, 3}}, memory.pool(), cache.view(), owner, INT64_MAX);
    EXPECT_EQ(read_prefixes(path, made_by, other.pool(), restored, salt_of, 1000),
              (Tokens{1, 2, 3}));
    EXPECT_EQ(found(other, restored, 1, one), 100);
    EXPECT_EQ(found(other, restored, 1, branch), 100);
    EXPECT_EQ(found(other, restored, 7, two), 45) << "the owner has another number now";
    EXPECT_EQ(found(other, restored, 2, two), 0);
    EXPECT_EQ(found(other, restored, 3, two), 0) << "was not to be written";
    EXPECT_EQ(other.pool().used_pages(), 0);
    // Again: nothing is held twice.
    const int64_t pages = other.pool().cached_pages();
    read_prefixes(path, made_by, other.pool(), restored, salt_of, 1000);
    EXPECT_EQ(other.pool().cached_pages(), pages);
    restored.clear();
    EXPECT_EQ(other.pool().cached_pages(), 0);
  }
}

// Declared tokens belong to everybody, whoever had them before they were declared; what was
// everybody's and is not any more belongs to nobody.
TEST_F(PrefixFileTest, WhatIsDeclaredMayChangeFromRunToRun) {
  const Tokens tokens = counting(80, 0);
  const std::vector<Tokens> none, declared = {counting(40, 0), counting(20, 500)};
  const auto owner_or_all = [](uint32_t salt) {
    return salt == PrefixCache::kSharedSalt ? std::optional<std::string>("all") : owner(salt);
  };
  const auto salt_or_all = [](const std::string& name) {
    return name == "all" ? std::optional<uint32_t>(PrefixCache::kSharedSalt) : salt_of(name);
  };
  for (const bool before : {false, true})
    for (const bool now : {false, true}) {
      WrittenPool memory({{0, 1}}, 64), other({{0, 1}}, 64);
      PrefixCache cache(memory.pool(), before ? declared : none),
          restored(other.pool(), now ? declared : none);
      remember(memory, cache, 1, tokens);
      write_prefixes(path, {made_by}, memory.pool(), cache.view(), owner_or_all, INT64_MAX);
      read_prefixes(path, made_by, other.pool(), restored, salt_or_all, 1000);
      EXPECT_EQ(found(other, restored, 1, tokens), before && !now ? 0 : 80);
      EXPECT_EQ(found(other, restored, 2, tokens), now ? 32 : 0) << "whole pages of 40 tokens";
      EXPECT_EQ(other.pool().cached_pages(), before && !now ? 0 : 5);
      // It goes on as if everything had been computed in this run.
      remember(other, restored, 1, tokens);
      remember(other, restored, 2, tokens);
      EXPECT_EQ(found(other, restored, 1, tokens), 80);
      EXPECT_EQ(other.pool().cached_pages(), now ? 2 + 3 + 3 : 5 + 5);
      restored.clear();
      EXPECT_EQ(other.pool().cached_pages() + other.pool().used_pages(), 0);
    }
}

TEST_F(PrefixFileTest, TheLeastRecentlyUsedIsLeftOut) {
  WrittenPool memory({{0, 1}}, 64), other({{0, 1}}, 64), small({{0, 1}}, 4);
  PrefixCache cache(memory.pool()), restored(other.pool()), short_of_pages(small.pool());
  const Tokens old = counting(48, 0), fresh = counting(64, 500);
  remember(memory, cache, 1, old);
  remember(memory, cache, 1, fresh);
  const int64_t page = memory.pool().shape().page_bytes(0);
  write_prefixes(path, {made_by}, memory.pool(), cache.view(), owner, 5 * page);
  read_prefixes(path, made_by, other.pool(), restored, salt_of, 1000);
  EXPECT_EQ(found(other, restored, 1, fresh), 64);
  EXPECT_EQ(found(other, restored, 1, old), 16) << "one page was left";
  // A pool with room for less takes what it can.
  write_prefixes(path, {made_by}, memory.pool(), cache.view(), owner, INT64_MAX);
  read_prefixes(path, made_by, small.pool(), short_of_pages, salt_of, 1000);
  EXPECT_EQ(small.pool().cached_pages(), 4);
  EXPECT_GT(found(small, short_of_pages, 1, fresh) + found(small, short_of_pages, 1, old), 0);
}

TEST_F(PrefixFileTest, ASessionIsOnePath) {
  WrittenPool memory({{0, 1}}, 64);
  PrefixCache cache(memory.pool());
  const Tokens tokens = counting(40, 0), other = counting(40, 500);
  remember(memory, cache, 1, tokens);
  remember(memory, cache, 1, other);
  EXPECT_EQ(cache.view().size(), 6u);
  EXPECT_EQ(cache.view(1, tokens).size(), 3u);
  EXPECT_EQ(cache.view(2, tokens).size(), 0u);
}

TEST_F(PrefixFileTest, TrustsNothing) {
  WrittenPool memory({{0, 1}}, 64);
  PrefixCache cache(memory.pool());
  remember(memory, cache, 1, counting(40, 0));
  write_prefixes(path, {made_by, {5}}, memory.pool(), cache.view(), owner, INT64_MAX);
  const std::string good = bytes();
  for (size_t i = 0; i < good.size(); i += 1 + good.size() / 97) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    put(bad);
    EXPECT_EQ(error_of_reading(), ErrorCode::data_corrupt) << "byte " << i;
    put(good.substr(0, i));
    EXPECT_EQ(error_of_reading(), ErrorCode::data_corrupt);
  }
  // Well summed up, but wrong.
  const auto with_header = [&](const std::string& from, const std::string& to) {
    constexpr size_t kMagic = 12, kBegin = kMagic + 8;
    uint64_t length = 0;
    std::memcpy(&length, good.data() + kMagic, 8);
    std::string header = good.substr(kBegin, length);
    const size_t at = header.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    header.replace(at, from.size(), to);
    const uint64_t changed = header.size();
    std::string body = good.substr(0, kMagic);
    body.append(reinterpret_cast<const char*>(&changed), 8);
    body += header + good.substr(kBegin + length, good.size() - 64 - kBegin - length);
    put(body + sha256_hex(body));
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"parent\":-1", "\"parent\":99"},
           {"\"parent\":0,", "\"parent\":7,"},
           {"\"tokens\":[0,1,", "\"tokens\":[-,1,"},
           {"\"tokens\":[0,1,", "\"tokens\":[9,999999,"},
           {"\"pages\":[true]", "\"pages\":[null]"},
           {"\"nodes\"", "\"modes\""}}) {
    with_header(from, to);
    EXPECT_EQ(error_of_reading(), ErrorCode::data_corrupt) << to;
  }
  put(good);
  made_by["model"] = "other";
  EXPECT_EQ(error_of_reading(), ErrorCode::unsupported);
}

}  // namespace
}  // namespace strata
