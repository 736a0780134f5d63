#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/kv_pool.h"
#include "text/tokenizer.h"

namespace strata {

using Tokens = std::vector<TokenId>;

// A pool whose pages hold, instead of keys and values, what they would depend on: the tokens up to
// and with their position. Every group has one head of one dimension of f32, so that a page is a
// slot of a key for each token and more; its first bytes serve as their fingerprints.
class WrittenPool {
 public:
  WrittenPool(std::vector<KvShape::Group> groups, int64_t pages,
              int page_tokens = kDefaultPageTokens)
      : pool_({.groups = groups,
               .kv_heads = 1,
               .head_size = 1,
               .type = KvType::f32,
               .page_tokens = page_tokens},
              std::vector<int64_t>(groups.size(), pages), 64) {}

  KvPool& pool() { return pool_; }

  // Appends tokens [length, end) as a forward pass would; false: no pages.
  bool write(int32_t cache, const Tokens& tokens, int64_t end) {
    const int64_t begin = pool_.length(cache);
    if (!pool_.append(cache, end - begin)) return false;
    const std::vector<uint32_t> prints = fingerprints(tokens, end);
    for (size_t g = 0; g < pool_.shape().groups.size(); ++g)
      for (int64_t i = begin; i < end; ++i) *slot(cache, g, i) = prints[static_cast<size_t>(i)];
    return true;
  }

  // Whether every position that the next query sees is stored as its own tokens ask for.
  testing::AssertionResult check(int32_t cache, const Tokens& tokens) {
    const int64_t length = pool_.length(cache);
    const std::vector<uint32_t> prints = fingerprints(tokens, length);
    for (size_t g = 0; g < pool_.shape().groups.size(); ++g) {
      const int64_t window = pool_.shape().groups[g].window;
      const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, length - window + 1);
      for (int64_t i = first; i < length; ++i)
        if (*slot(cache, g, i) != prints[static_cast<size_t>(i)])
          return testing::AssertionFailure() << "group " << g << ", position " << i;
    }
    return testing::AssertionSuccess();
  }

 private:
  // Of the beginnings of 1..count tokens.
  static std::vector<uint32_t> fingerprints(const Tokens& tokens, int64_t count) {
    std::vector<uint32_t> out;
    uint32_t h = 2166136261u;
    for (int64_t i = 0; i < count; ++i) {
      h = (h ^ static_cast<uint32_t>(tokens[static_cast<size_t>(i)] + 1)) * 16777619u;
      out.push_back(h);
    }
    return out;
  }
  uint32_t* slot(int32_t cache, size_t group, int64_t position) {
    const int64_t page_tokens = pool_.shape().page_tokens;
    const int32_t page =
        pool_.page_table(cache, group)[static_cast<size_t>(position / page_tokens)];
    EXPECT_GE(page, 0) << "group " << group << ", position " << position;
    std::byte* bytes = pool_.layer_base(group, 0) + pool_.shape().page_bytes(group) * page;
    return reinterpret_cast<uint32_t*>(bytes) + position % page_tokens;
  }

  KvPool pool_;
};

}  // namespace strata
