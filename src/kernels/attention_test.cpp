#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "kernels/guarded_for_test.h"
#include "kernels/kernel_table.h"
#include "kernels/ref/attention.h"
#include "numeric/half.h"
#include "support/tested_levels.h"

namespace strata {
namespace {

constexpr double kEps = 0x1p-24;

std::vector<float> values(int64_t n, uint32_t seed, float range) {
  std::vector<float> v(static_cast<size_t>(n));
  uint32_t state = seed * 2654435761u + 99;
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = (static_cast<float>(state >> 8) / 8388608.0f - 1.0f) * range;
  }
  return v;
}

float as_stored(float x, KvType type) {
  // Numbers beyond those of f16 become the largest.
  if (type == KvType::f16 && std::isfinite(x)) x = std::clamp(x, -65504.0f, 65504.0f);
  if (type == KvType::f16) return decode_f16(encode_f16(x));
  if (type == KvType::bf16) return decode_bf16(encode_bf16(x));
  return x;
}

// T tokens of one KV head in shuffled pages of memory filled with NaN, and what is stored there. A
// page that may not be touched lies behind the last of them or before the first.
class Cache {
 public:
  Cache(const AttentionKernels& kernels, KvType type, int head_size, int64_t tokens,
        uint32_t seed = 1, bool reversed_pages = true, int page_tokens = kDefaultPageTokens)
      : page_{head_size, page_tokens}, tokens_(tokens) {
    keys_ = values(tokens * head_size, seed, 1.5f);
    values_ = values(tokens * head_size, seed + 1, 2);
    const int64_t page_count = (tokens + page_tokens - 1) / page_tokens;
    stride_ = head_page_bytes(type, page_) + 64;
    const int64_t bytes = stride_ * page_count - 64;
    memory_ = std::make_unique<Guarded>(bytes / 4, tokens % 2 == 0 ? Guard::before : Guard::after);
    std::memset(memory_->data(), 0xff, static_cast<size_t>(bytes));
    for (int64_t p = 0; p < page_count; ++p)
      pages_.push_back(static_cast<int32_t>(reversed_pages ? page_count - 1 - p : p));
    for (int64_t t = 0; t < tokens; ++t)
      kernels.store(keys_.data() + t * head_size, values_.data() + t * head_size, page_,
                    static_cast<int>(t % page_tokens),
                    base() + pages_[static_cast<size_t>(t / page_tokens)] * stride_);
    for (float& x : keys_) x = as_stored(x, type);
    for (float& x : values_) x = as_stored(x, type);
  }
  KvHead head() const { return {base(), pages_.data(), stride_, page_}; }
  const float* keys() const { return keys_.data(); }
  const float* vals() const { return values_.data(); }
  int64_t tokens() const { return tokens_; }

 private:
  char* base() const { return reinterpret_cast<char*>(memory_->data()); }

  PageShape page_;
  int64_t tokens_, stride_ = 0;
  std::vector<float> keys_, values_;
  std::unique_ptr<Guarded> memory_;
  std::vector<int32_t> pages_;
};

struct Query {
  std::vector<float> q;
  int32_t begin, end;
};

// The definition: chunks from left to right, first those of sinks that lie before a query's own
// keys, `tile` queries a call.
std::vector<std::vector<float>> attend(const AttentionKernels& kernels, const KvHead& head,
                                       int64_t tokens, const std::vector<Query>& queries,
                                       float scale, int tile, int32_t sinks = 0,
                                       float soft_cap = 0) {
  const int size = head.page.head_size;
  std::vector<std::vector<float>> y(queries.size(), std::vector<float>(static_cast<size_t>(size)));
  for (size_t first = 0; first < queries.size(); first += static_cast<size_t>(tile)) {
    const size_t n = std::min(queries.size() - first, static_cast<size_t>(tile));
    std::vector<const float*> q;
    std::vector<float*> out;
    std::vector<int32_t> begin, end, nothing, sinks_end;
    for (size_t i = first; i < first + n; ++i) {
      q.push_back(queries[i].q.data());
      out.push_back(y[i].data());
      begin.push_back(queries[i].begin);
      end.push_back(queries[i].end);
      nothing.push_back(0);
      sinks_end.push_back(std::min(sinks, queries[i].begin));
    }
    const size_t o_size = n * static_cast<size_t>(padded_head(size));
    std::vector<float> m(n, -INFINITY), l(n, 0), o(o_size, 0), pm(n, NAN), pl(n, NAN),
        po(o_size, NAN);
    const AttentionSums sums{m.data(), l.data(), o.data()}, part{pm.data(), pl.data(), po.data()};
    const auto count = static_cast<int>(n);
    const AttentionQueries of_sinks{q.data(), nothing.data(), sinks_end.data(),
                                    count,    scale,          soft_cap};
    const AttentionQueries own{q.data(), begin.data(), end.data(), count, scale, soft_cap};
    const auto merge_chunks = [&](const AttentionQueries& call, int64_t positions) {
      const auto chunks = static_cast<int32_t>((positions + kChunkTokens - 1) / kChunkTokens);
      for (int32_t c = 0; c < chunks; ++c) {
        kernels.chunk(head, call, c, part);
        kernels.merge(sums, part, count, size);
      }
    };
    merge_chunks(of_sinks, sinks);
    merge_chunks(own, tokens);
    kernels.finish(sums, count, size, out.data());
  }
  return y;
}

std::vector<std::vector<float>> attend(const AttentionKernels& kernels, const Cache& cache,
                                       const std::vector<Query>& queries, float scale, int tile,
                                       int32_t sinks = 0, float soft_cap = 0) {
  return attend(kernels, cache.head(), cache.tokens(), queries, scale, tile, sinks, soft_cap);
}

class Attention : public testing::TestWithParam<std::tuple<TestedLevel, KvType>> {
 protected:
  void SetUp() override { need_isa_level(std::get<0>(GetParam()).needs); }
  KvType type() const { return std::get<1>(GetParam()); }
  const AttentionKernels& kernels() const {
    return std::get<0>(GetParam()).kernels->attention[static_cast<int>(type())];
  }
};

TEST_P(Attention, AgreesWithTheNaiveTwin) {
  for (const int size : {2, 6, 16, 18, 64, 128, 256}) {
    const float scale = 1.3f / std::sqrt(static_cast<float>(size));
    for (const int64_t tokens : {1, 15, 16, 17, 63, 64, 65, 130, 200}) {
      const Cache cache(kernels(), type(), size, tokens);
      std::vector<Query> queries;
      for (int i = 0; i < 15; ++i) {
        const auto end = static_cast<int32_t>(std::max<int64_t>(tokens - i * 3, 0));
        const int32_t window = i % 3 == 0 ? 1000 : 5 + 20 * i;
        queries.push_back(
            {values(size, 50 + static_cast<uint32_t>(i), 3), std::max(end - window, 0), end});
      }
      const auto y = attend(kernels(), cache, queries, scale, 15);
      for (size_t i = 0; i < queries.size(); ++i) {
        const auto ref =
            ref::attention(queries[i].q.data(), cache.keys(), cache.vals(), size,
                           static_cast<double>(scale), {queries[i].begin, queries[i].end});
        // A score errs by at most (Dh + 3) eps sum |q k|, which its weight feels twice (weight and
        // sum); weights and merges by e^x (5 eps), shifts (2 eps |score|), and 64 additions twice.
        const double relative = kEps * (2 * (size + 6) * ref.score_scale + 2 * 64 +
                                        16 * (1 + static_cast<double>(tokens) / 64));
        for (int d = 0; d < size; ++d)
          ASSERT_NEAR(y[i][static_cast<size_t>(d)], ref.y[static_cast<size_t>(d)],
                      relative * ref.value[static_cast<size_t>(d)])
              << "Dh " << size << " T " << tokens << " query " << i << " d " << d;
      }
    }
  }
}

// Sinks and window in the same chunk, in two, the window over the sinks, and queries at the very
// beginning; a cap that bends most scores. The bound is that of AgreesWithTheNaiveTwin and what
// tanh adds to a score: 6 eps of the cap.
TEST_P(Attention, SinksAndSoftCapAgreeWithTheNaiveTwin) {
  const int size = 32;
  const float scale = 0.3f, cap = 2.5f;
  const Cache cache(kernels(), type(), size, 300);
  for (const int32_t sinks : {0, 1, 4, 16, 20, 70}) {
    for (const bool capped : {false, true}) {
      std::vector<Query> queries;
      for (const int32_t end : {0, 1, 3, 17, 40, 64, 65, 100, 130, 299, 300})
        for (const int32_t window : {1, 10, 30, 90})
          queries.push_back({values(size, static_cast<uint32_t>(end * 100 + window), 3),
                             std::max(end - window, 0), end});
      const auto y = attend(kernels(), cache, queries, scale, 11, sinks, capped ? cap : 0);
      EXPECT_EQ(attend(kernels(), cache, queries, scale, 5, sinks, capped ? cap : 0), y);
      for (size_t i = 0; i < queries.size(); ++i) {
        const auto ref = ref::attention(
            queries[i].q.data(), cache.keys(), cache.vals(), size, static_cast<double>(scale),
            {queries[i].begin, queries[i].end, sinks}, capped ? static_cast<double>(cap) : 0);
        const double relative = kEps * (2 * (size + 6) * ref.score_scale + 2 * 64 + 16 * 6 +
                                        (capped ? 12 * static_cast<double>(cap) : 0));
        for (int d = 0; d < size; ++d)
          ASSERT_NEAR(y[i][static_cast<size_t>(d)], ref.y[static_cast<size_t>(d)],
                      relative * ref.value[static_cast<size_t>(d)])
              << "sinks " << sinks << " query [" << queries[i].begin << ", " << queries[i].end
              << ") d " << d;
      }
    }
  }
}

// Pages behind the window are another sequence's by then: their entries may not even be looked at.
TEST_P(Attention, SkipsPagesBetweenSinksAndWindow) {
  const int size = 16;
  const Cache cache(kernels(), type(), size, 60);
  const std::vector<Query> queries = {{values(size, 1, 3), 50, 60}, {values(size, 2, 3), 49, 59}};
  const auto y = attend(kernels(), cache, queries, 0.3f, 2, 4);
  const KvHead whole = cache.head();
  std::vector<int32_t> pages(whole.pages, whole.pages + 4);
  pages[1] = pages[2] = 1 << 30;  // far outside the memory
  const KvHead cut{whole.base, pages.data(), whole.page_stride, whole.page};
  EXPECT_EQ(attend(kernels(), cut, cache.tokens(), queries, 0.3f, 2, 4), y);
}

TEST_P(Attention, AQueryWithoutKeysGivesZeros) {
  const Cache cache(kernels(), type(), 10, 20);
  const auto y =
      attend(kernels(), cache, {{values(10, 3, 1), 0, 0}, {values(10, 4, 1), 0, 20}}, 1.0f, 2);
  for (const float x : y[0]) EXPECT_EQ(x, 0.0f);
  EXPECT_NE(y[1][0], 0.0f);
}

// q = 1..5 queries against k = 1..9 keys, causal and aligned to the last key.
TEST_P(Attention, FewerQueriesThanKeysSeeTheRightOnes) {
  for (int32_t keys = 1; keys <= 9; ++keys) {
    const Cache cache(kernels(), type(), 4, keys);
    for (int32_t count = 1; count <= 5; ++count) {
      std::vector<Query> queries;
      for (int32_t i = 0; i < count; ++i)
        queries.push_back(
            {values(4, 7 + static_cast<uint32_t>(i), 2), 0, std::max(keys - count + 1 + i, 0)});
      const auto y = attend(kernels(), cache, queries, 0.5f, 6);
      for (size_t i = 0; i < queries.size(); ++i) {
        const auto ref = ref::attention(queries[i].q.data(), cache.keys(), cache.vals(), 4, 0.5,
                                        {0, queries[i].end});
        for (size_t d = 0; d < 4; ++d) EXPECT_NEAR(y[i][d], ref.y[d], 1e-5);
      }
    }
  }
}

// Bits do not depend on how many queries share a call nor on where pages lie.
TEST_P(Attention, BitsDoNotDependOnTilesOrPages) {
  const int size = 64;
  const Cache cache(kernels(), type(), size, 333), straight(kernels(), type(), size, 333, 1, false);
  std::vector<Query> queries;
  for (int32_t i = 0; i < 23; ++i)
    queries.push_back(
        {values(size, 20 + static_cast<uint32_t>(i), 4), i % 2 == 0 ? 0 : 100 + i, 200 + i * 5});
  const auto whole = attend(kernels(), cache, queries, 0.125f, 23);
  for (const int tile : {1, 2, 3, 4, 5, 6, 7, 12})
    EXPECT_EQ(attend(kernels(), cache, queries, 0.125f, tile), whole) << tile;
  EXPECT_EQ(attend(kernels(), straight, queries, 0.125f, 6), whole);
}

// Numbers too large for a type harm nobody who does not see them, in the same call or alone.
TEST_P(Attention, LargeNumbersReachOnlyThoseWhoSeeThem) {
  const int size = 16;
  const Cache cache(kernels(), type(), size, 20);
  const KvHead head = cache.head();
  const std::vector<float> large(size, -1e30f);
  auto* page = static_cast<char*>(const_cast<void*>(head.base)) + head.pages[0] * head.page_stride;
  kernels().store(large.data(), large.data(), head.page, 9, page);
  std::vector<Query> queries;
  for (int32_t i = 7; i < 13; ++i) queries.push_back({values(size, 20, 4), 0, i});
  for (int32_t i = 9; i < 13; ++i) queries.push_back({values(size, 20, 4), i + 1, 20});
  const auto alone = attend(kernels(), cache, queries, 0.125f, 1);
  EXPECT_EQ(attend(kernels(), cache, queries, 0.125f, 6), alone);
  for (size_t i = 0; i < queries.size(); ++i) {
    const bool sees = queries[i].begin <= 9 && 9 < queries[i].end;
    for (const float y : alone[i]) EXPECT_TRUE(sees || std::fabs(y) < 2) << i << ": " << y;
  }
}

// Head sizes that fill a page of 8 to a multiple of 16 elements and not; queries that begin and end
// anywhere in a page, and sinks; pages that nobody sees are not looked at, whatever their size.
TEST_P(Attention, BitsDoNotDependOnTheSizeOfPages) {
  for (const int size : {1, 2, 7, 10, 64}) {
    for (const int64_t tokens : {1, 9, 120, 201}) {
      std::vector<Query> queries;
      for (int32_t end = 1; end <= tokens; end += 1 + end / 9)
        for (const int32_t window : {3, 16, 70, 500})
          queries.push_back({values(size, static_cast<uint32_t>(end * 100 + window), 3),
                             std::max(end - window, 0), end});
      const Cache usual(kernels(), type(), size, tokens);
      const auto want = attend(kernels(), usual, queries, 0.2f, 7, 5, 3.0f);
      for (const int page_tokens : kPageSizes) {
        const Cache cache(kernels(), type(), size, tokens, 1, true, page_tokens);
        EXPECT_EQ(attend(kernels(), cache, queries, 0.2f, 7, 5, 3.0f), want)
            << "Dh " << size << " T " << tokens << " pages of " << page_tokens;
        EXPECT_EQ(attend(kernels(), cache, queries, 0.2f, 1, 5, 3.0f), want)
            << "alone, Dh " << size << " T " << tokens << " pages of " << page_tokens;
      }
    }
  }
}

// What is added to keys lies in panels of 16 tokens, however large the pages.
TEST_P(Attention, AddedKeysDoNotDependOnTheSizeOfPages) {
  const int size = 10;
  const std::vector<float> added = values(kChunkTokens * size, 5, 2);
  const std::vector<float> q = values(size, 6, 2), q_added = values(size, 7, 1);
  const float *q_row = q.data(), *q_added_row = q_added.data();
  const auto scores = [&](int page_tokens, int32_t begin, int32_t end) {
    const Cache cache(kernels(), type(), size, 60, 1, true, page_tokens);
    KvHead head = cache.head();
    head.added_keys = added.data();
    float m = 0, l = 0;
    std::vector<float> o(static_cast<size_t>(padded_head(size)), 0);
    const AttentionQueries queries{&q_row, &begin, &end, 1, 0.5f, 0, &q_added_row};
    kernels().chunk(head, queries, 0, {&m, &l, o.data()});
    o.push_back(m);
    o.push_back(l);
    return o;
  };
  for (const int page_tokens : kPageSizes)
    for (const auto& [begin, end] : {std::pair{0, 60}, {0, 1}, {7, 8}, {13, 27}, {59, 60}})
      EXPECT_EQ(scores(page_tokens, begin, end), scores(kDefaultPageTokens, begin, end))
          << page_tokens << ", " << begin << " to " << end;
  // By hand, of one key: its weight is 1, so m is its score.
  const Cache cache(kernels(), type(), size, 60);
  double score = 0;
  for (int d = 0; d < size; ++d) {
    const auto i = static_cast<size_t>(d);
    const float bias = added[static_cast<size_t>(13 / kPanelTokens * kPanelTokens * size +
                                                 d * kPanelTokens + 13 % kPanelTokens)];
    score += static_cast<double>(q[i]) * static_cast<double>(cache.keys()[13 * size + d]) +
             static_cast<double>(q_added[i]) * static_cast<double>(bias);
  }
  EXPECT_NEAR(scores(8, 13, 14)[static_cast<size_t>(padded_head(size))], 0.5 * score, 1e-4);
}

TEST_P(Attention, StoresAsTheTypeRounds) {
  const PageShape shape{6};
  const int size = shape.head_size, tokens = shape.tokens;
  std::vector<float> k = {1.0009765625f, -65504, 70000, 1e-8f, -0.0f, 5.9604645e-8f};
  std::vector<float> v = {0.1f,    65519.9f, -6.1e-5f,
                          3.0e-5f, 1e-40f,   std::numeric_limits<float>::quiet_NaN()};
  std::vector<unsigned char> page(static_cast<size_t>(head_page_bytes(type(), shape)), 0);
  kernels().store(k.data(), v.data(), shape, 3, page.data());
  for (int d = 0; d < size; ++d) {
    const int key = d * tokens + 3;
    const int value = tokens * size + 3 * padded_head(size) + d;
    const auto read = [&](int index) {
      if (type() == KvType::f32) {
        float x;
        std::memcpy(&x, page.data() + index * 4, 4);
        return x;
      }
      uint16_t bits;
      std::memcpy(&bits, page.data() + index * 2, 2);
      return type() == KvType::f16 ? decode_f16(bits) : decode_bf16(bits);
    };
    const float want_k = as_stored(k[static_cast<size_t>(d)], type());
    const float want_v = as_stored(v[static_cast<size_t>(d)], type());
    EXPECT_EQ(read(key), want_k) << d;
    EXPECT_TRUE(read(value) == want_v || (std::isnan(want_v) && std::isnan(read(value)))) << d;
  }
}

// Extreme scores neither overflow nor vanish.
TEST_P(Attention, LargeScores) {
  const Cache cache(kernels(), type(), 8, 100);
  const std::vector<Query> queries = {{values(8, 5, 5000), 0, 100}};
  const auto y = attend(kernels(), cache, queries, 1.0f, 1);
  const auto ref =
      ref::attention(queries[0].q.data(), cache.keys(), cache.vals(), 8, 1.0, {0, 100});
  for (size_t d = 0; d < 8; ++d)
    EXPECT_NEAR(y[0][d], ref.y[d], kEps * 28 * ref.score_scale * ref.value[d] + 1e-6);
}

// A group of q8 by its definition, in double.
std::vector<double> group_of_q8(const std::vector<double>& x) {
  double largest = 0;
  for (const double v : x) largest = std::max(largest, std::abs(v));
  const auto scale =
      static_cast<double>(decode_f16(encode_f16(static_cast<float>(largest) / 127.0f)));
  std::vector<double> y;
  for (const double v : x)
    y.push_back(scale > 0 ? scale * std::clamp(std::nearbyint(v / scale), -127.0, 127.0) : 0);
  return y;
}

// The levels between the least and the largest of a group, nearest one to each element: what a fit
// has to be as good as.
double squares_of_plain_levels(const std::vector<double>& x) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const double step = (*high - *low) / 15;
  double sum = 0;
  for (const double v : x) {
    const double level = step > 0 ? std::nearbyint((v - *low) / step) * step + *low : *low;
    sum += (v - level) * (v - level);
  }
  return sum;
}

// `y` is what x became. q8: by its definition. q4: up to 15 steps of `scale` from the least, and no
// worse than the plain levels but for the rounding of two f16s.
void expect_group(KvType type, double scale, const std::vector<double>& x,
                  const std::vector<double>& y) {
  if (type == KvType::q8) {
    EXPECT_EQ(y, group_of_q8(x));
    return;
  }
  const double least = *std::min_element(y.begin(), y.end());
  double largest = 0, squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(x[i]));
    squares += (x[i] - y[i]) * (x[i] - y[i]);
    const double steps = scale > 0 ? (y[i] - least) / scale : 0;
    EXPECT_NEAR(steps, std::nearbyint(steps), 1e-3);
    EXPECT_LE(steps, 15.001);
  }
  const double rounding = 2 * 0x1p-11 * largest + 16 * 0x1p-25;  // f16 has no smaller steps
  const auto n = static_cast<double>(x.size());
  EXPECT_LE(std::sqrt(squares), std::sqrt(squares_of_plain_levels(x)) + std::sqrt(n) * rounding);
}

class QuantizedPages : public testing::TestWithParam<std::tuple<TestedLevel, KvType>> {
 protected:
  void SetUp() override { need_isa_level(std::get<0>(GetParam()).needs); }
  KvType type() const { return std::get<1>(GetParam()); }
  const AttentionKernels& kernels() const {
    return std::get<0>(GetParam()).kernels->attention[static_cast<int>(type())];
  }
};

void expect_nearest_codes(const AttentionKernels& kernels, KvType type, const PageShape& shape) {
  const int size = shape.head_size, tokens = shape.tokens;
  std::vector<unsigned char> page(static_cast<size_t>(head_page_bytes(type, shape)), 0xa5);
  std::vector<std::vector<float>> keys(static_cast<size_t>(tokens)), vals(keys.size());
  for (int i = 0; i < tokens; ++i) {
    const int slot = i * 7 % tokens;  // in no order: a token leaves the others as they are
    auto& k = keys[static_cast<size_t>(slot)];
    auto& v = vals[static_cast<size_t>(slot)];
    k = values(size, static_cast<uint32_t>(i), std::ldexp(1.0f, 2 * (i % 16) - 20));
    v = values(size, 100 + static_cast<uint32_t>(i), 5);
    if (i == 3) std::fill(k.begin(), k.end(), 0.0f);
    if (i == 4) v[static_cast<size_t>(size) - 1] = -3000;
    kernels.store(k.data(), v.data(), shape, slot, page.data());
  }
  std::vector<float> out(static_cast<size_t>(head_page_elements(shape)), NAN);
  kernels.unpack(page.data(), shape, out.data());
  const int groups = kv_groups(size);
  const auto scale_at = [&](int index) {  // of q4: the f16s behind the codes
    if (type == KvType::q8) return 0.0;
    uint16_t bits;
    std::memcpy(&bits, page.data() + head_page_elements(shape) * kv_type_bits(type) / 8 + 2 * index,
                2);
    return static_cast<double>(decode_f16(bits));
  };
  for (int slot = 0; slot < tokens; ++slot)
    for (int first = 0; first < size; first += kKvGroup) {
      std::vector<double> k, v, got_k, got_v;
      for (int d = first; d < std::min(size, first + kKvGroup); ++d) {
        k.push_back(static_cast<double>(keys[static_cast<size_t>(slot)][static_cast<size_t>(d)]));
        v.push_back(static_cast<double>(vals[static_cast<size_t>(slot)][static_cast<size_t>(d)]));
        const int value = (tokens * size + 15) / 16 * 16 + slot * padded_head(size) + d;
        got_k.push_back(static_cast<double>(out[static_cast<size_t>(int64_t{d} * tokens + slot)]));
        got_v.push_back(static_cast<double>(out[static_cast<size_t>(value)]));
      }
      SCOPED_TRACE(testing::Message() << "Dh " << size << " pages of " << tokens << " slot " << slot
                                      << " d " << first);
      expect_group(type, scale_at(first / kKvGroup * tokens + slot), k, got_k);
      expect_group(type, scale_at(2 * tokens * groups + slot * groups + first / kKvGroup), v,
                   got_v);
      if (testing::Test::HasFailure()) return;
    }
}

TEST_P(QuantizedPages, HoldTheNearestCodesOfEachToken) {
  for (const int tokens : kPageSizes)
    for (const int size : {1, 2, 5, 6, 16, 18, 32, 35, 48, 64, 80, 128, 256})
      expect_nearest_codes(kernels(), type(), {size, tokens});
}

// By hand: scale 1 and halves to the even code; 16 levels 2 apart from -4 on, all exact.
TEST_P(QuantizedPages, KeepWhatTheirLevelsHold) {
  std::vector<float> x = {127, -63.5f, 0.5f, 1.5f}, want = {127, -64, 0, 2};
  if (type() == KvType::q4) {
    x.clear();
    for (int i = 0; i < 16; ++i) x.push_back(static_cast<float>(2 * ((7 * i) % 16) - 4));
    want = x;
  }
  for (const int tokens : kPageSizes) {
    const PageShape shape{static_cast<int>(x.size()), tokens};
    std::vector<unsigned char> page(static_cast<size_t>(head_page_bytes(type(), shape)), 0);
    kernels().store(x.data(), x.data(), shape, 0, page.data());
    std::vector<float> out(static_cast<size_t>(head_page_elements(shape)));
    kernels().unpack(page.data(), shape, out.data());
    for (size_t d = 0; d < x.size(); ++d)
      EXPECT_EQ(out[d * static_cast<size_t>(tokens)], want[d]) << d << ", pages of " << tokens;
  }
}

// A broken model's numbers stay broken.
TEST_P(QuantizedPages, KeepWhatIsNotFiniteVisible) {
  for (const float broken : {NAN, INFINITY, -INFINITY, 3e38f}) {
    std::vector<float> k = values(32, 1, 1), v = values(32, 2, 1);
    k[5] = v[31] = broken;
    const PageShape shape{32};
    std::vector<unsigned char> page(static_cast<size_t>(head_page_bytes(type(), shape)), 0);
    kernels().store(k.data(), v.data(), shape, 15, page.data());
    std::vector<float> out(static_cast<size_t>(head_page_elements(shape)));
    kernels().unpack(page.data(), shape, out.data());
    EXPECT_TRUE(std::isnan(out[5 * 16 + 15])) << broken;
    EXPECT_TRUE(std::isnan(out[16 * 32 + 15 * 32 + 31])) << broken;
  }
}

TEST_P(QuantizedPages, RotateByTheHadamardMatrix) {
  std::vector<float> x = {1, 2, 3, 4};  // H = 1/2 [1 1 1 1; 1 -1 1 -1; 1 1 -1 -1; 1 -1 -1 1]
  kernels().rotate(x.data(), 4);
  EXPECT_EQ(x, (std::vector<float>{5, -1, -2, 0}));
  std::vector<float> six = {3, 4, 0, 0, 1, -1};  // three blocks of two
  kernels().rotate(six.data(), 6);
  const float root = std::sqrt(0.5f);
  const std::vector<float> want = {7 * root, -root, 0, 0, 0, 2 * root};
  for (size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(six[i], want[i]) << i;
  for (const int size : {64, 80, 128, 256}) {
    const std::vector<float> start = values(size, 9, 2);
    std::vector<float> twice = start;
    kernels().rotate(twice.data(), size);
    EXPECT_NE(twice, start);
    kernels().rotate(twice.data(), size);
    // 2 log2(256) sums and two norms, of magnitudes up to 2 sqrt(256).
    for (int d = 0; d < size; ++d)
      ASSERT_NEAR(twice[static_cast<size_t>(d)], start[static_cast<size_t>(d)], kEps * 20 * 32);
  }
}

std::string case_name(const testing::TestParamInfo<std::tuple<TestedLevel, KvType>>& p) {
  return std::get<0>(p.param).name + "_" + std::string(kv_type_name(std::get<1>(p.param)));
}

INSTANTIATE_TEST_SUITE_P(Levels, Attention,
                         testing::Combine(testing::ValuesIn(tested_levels()),
                                          testing::Values(KvType::f32, KvType::f16, KvType::bf16)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Levels, QuantizedPages,
                         testing::Combine(testing::ValuesIn(tested_levels()),
                                          testing::Values(KvType::q8, KvType::q4)),
                         case_name);

}  // namespace
}  // namespace strata
