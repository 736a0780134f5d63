// Both tables against the maps of the standard library.
#include "text/word_counts.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "text/pair_table.h"

namespace strata {
namespace {

TEST(WordCounts, CountsAsAMapDoes) {
  WordCounts counts;
  std::map<std::string, int64_t> wanted;
  uint32_t state = 1;
  for (int i = 0; i < 100'000; ++i) {
    state = state * 1664525u + 1013904223u;
    // 1 to 20 bytes, of which the first ones differ: many words share their ends.
    std::string word(state >> 27 & 15, 'x');
    word += std::to_string(state >> 20);
    const int64_t count = static_cast<int64_t>(state >> 30) + (int64_t{1} << 31);
    counts.add(word, count);
    wanted[word] += count;
  }
  counts.add("", 3);
  counts.add(std::string_view("\0", 1), 4);
  wanted[""] += 3;
  wanted[std::string("\0", 1)] += 4;
  ASSERT_EQ(counts.size(), wanted.size());
  for (const WordCounts::Word& w : counts.words()) {
    const auto it = wanted.find(std::string(w.text));
    ASSERT_NE(it, wanted.end()) << w.text;
    EXPECT_EQ(w.count, it->second) << w.text;
    wanted.erase(it);
  }
  EXPECT_TRUE(wanted.empty());
}

TEST(WordCounts, KeepsTheOrderOfFirstAppearance) {
  WordCounts counts;
  for (const char* word : {"b", "a", "b", "c"}) counts.add(word, 1);
  std::string order;
  for (const WordCounts::Word& w : counts.words()) order += w.text;
  EXPECT_EQ(order, "bac");
}

TEST(PairTable, IsAMap) {
  PairTable<int64_t> table;
  std::map<std::pair<int32_t, int32_t>, int64_t> wanted;
  uint32_t state = 1;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 20'000; ++i) {
      state = state * 1664525u + 1013904223u;
      const std::pair<int32_t, int32_t> pair(state >> 26, state >> 18 & 127);
      EXPECT_EQ(table[pair], wanted[pair]);
      table[pair] += state >> 30;
      wanted[pair] += state >> 30;
    }
    EXPECT_EQ(table.size(), wanted.size());
    for (const auto& [pair, value] : wanted) EXPECT_EQ(table[pair], value);
    table.clear();
    wanted.clear();
    EXPECT_EQ((table[{0, 0}]), 0);
    wanted[{0, 0}];
  }
}

}  // namespace
}  // namespace strata
