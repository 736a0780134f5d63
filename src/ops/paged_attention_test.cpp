#include "ops/paged_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/ref/attention.h"
#include "numeric/half.h"
#include "tensor/arena.h"

namespace strata {
namespace {

struct Model {
  int heads, kv_heads, head_size;
  int64_t window;
  int64_t sinks = 0;
  float soft_cap = 0;
};

// A sequence's rows, and what the op made of them.
struct Sequence {
  std::vector<float> q, k, v, y;  // [T, heads * Dh]
  int64_t length = 0;             // stored so far
  std::vector<int32_t> pages;
  int64_t window = 0, sinks = 0;  // narrower than the layer's
};

class Layer {
 public:
  Layer(const Model& model, int64_t pages, KvType type = KvType::f16,
        const KeyBias* key_bias = nullptr, int page_tokens = kDefaultPageTokens,
        std::span<const float> key_scales = {})
      : model_(model),
        type_(type),
        page_tokens_(page_tokens),
        key_bias_(key_bias),
        key_scales_(key_scales),
        stride_(model.kv_heads * head_page_bytes(type, {model.head_size, page_tokens})) {
    memory_.assign(static_cast<size_t>(stride_ * pages), std::byte{0xff});  // NaN in every type
    for (int32_t i = 0; i < pages; ++i) free_.push_back(i);
  }

  void shuffle(uint32_t seed) { std::shuffle(free_.begin(), free_.end(), std::mt19937(seed)); }

  // One call for the next rows[i] rows of each sequence.
  void step(const std::vector<Sequence*>& sequences, const std::vector<int64_t>& rows,
            ThreadPool& pool) {
    const int64_t q_width = int64_t{model_.heads} * model_.head_size;
    const int64_t k_width = int64_t{model_.kv_heads} * model_.head_size;
    int64_t total = 0;
    for (const int64_t r : rows) total += r;
    Arena arena;
    const Tensor q = arena.tensor(DType::f32, total, q_width);
    const Tensor k = arena.tensor(DType::f32, total, k_width);
    const Tensor v = arena.tensor(DType::f32, total, k_width);
    const Tensor y = arena.tensor(DType::f32, total, q_width);
    std::vector<PagedRows> paged;
    int64_t row = 0;
    for (size_t i = 0; i < sequences.size(); ++i) {
      Sequence& s = *sequences[i];
      while (static_cast<int64_t>(s.pages.size()) * page_tokens_ < s.length + rows[i]) {
        s.pages.push_back(free_.back());
        free_.pop_back();
      }
      for (int64_t r = 0; r < rows[i]; ++r) {
        std::copy_n(s.q.data() + (s.length + r) * q_width, q_width, q.row<float>(row + r));
        std::copy_n(s.k.data() + (s.length + r) * k_width, k_width, k.row<float>(row + r));
        std::copy_n(s.v.data() + (s.length + r) * k_width, k_width, v.row<float>(row + r));
      }
      paged.push_back({row, rows[i], s.length, s.pages, s.window, s.sinks});
      row += rows[i];
    }
    PagedAttention a{.type = type_,
                     .page_tokens = page_tokens_,
                     .base = memory_.data(),
                     .page_stride = stride_,
                     .heads = model_.heads,
                     .kv_heads = model_.kv_heads,
                     .head_size = model_.head_size,
                     .scale = 0.3f,
                     .window = model_.window,
                     .sinks = model_.sinks,
                     .soft_cap = model_.soft_cap,
                     .key_bias = key_bias_,
                     .key_scales = key_scales_,
                     .sequences = paged};
    const OpContext context{&kernel_table(isa_level()), &pool};
    paged_attention(a, q, k, v, y, workspace_, context);
    for (size_t i = 0; i < sequences.size(); ++i) {
      Sequence& s = *sequences[i];
      for (int64_t r = 0; r < rows[i]; ++r) {
        const float* out = y.row<float>(paged[i].first_row + r);
        s.y.insert(s.y.end(), out, out + q_width);
      }
      s.length += rows[i];
    }
  }

 private:
  Model model_;
  KvType type_;
  int page_tokens_;
  const KeyBias* key_bias_;
  std::span<const float> key_scales_;
  int64_t stride_;
  std::vector<std::byte> memory_;
  std::vector<int32_t> free_;
  PagedAttentionWorkspace workspace_;
};

Sequence random_sequence(const Model& model, int64_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& v, int heads) {
    v.resize(static_cast<size_t>(tokens * heads * model.head_size));
    for (float& x : v) x = normal(random);
  };
  Sequence s;
  fill(s.q, model.heads);
  fill(s.k, model.kv_heads);
  fill(s.v, model.kv_heads);
  return s;
}

// The whole sequence in calls of the given sizes, the last repeated.
std::vector<float> run_alone(const Model& model, Sequence s, const std::vector<int64_t>& cuts,
                             int threads, uint32_t shuffle = 0, KvType type = KvType::f16,
                             const KeyBias* key_bias = nullptr,
                             int page_tokens = kDefaultPageTokens,
                             std::span<const float> key_scales = {}) {
  const auto tokens = static_cast<int64_t>(s.q.size()) / (int64_t{model.heads} * model.head_size);
  ThreadPool pool(threads);
  Layer layer(model, tokens / page_tokens + 1, type, key_bias, page_tokens, key_scales);
  if (shuffle != 0) layer.shuffle(shuffle);
  for (size_t i = 0; s.length < tokens; ++i)
    layer.step({&s}, {std::min(cuts[std::min(i, cuts.size() - 1)], tokens - s.length)}, pool);
  return s.y;
}

constexpr Model kModels[] = {
    {9, 3, 64, 0},           {4, 4, 10, 0},     {6, 1, 16, 70},
    {14, 2, 32, 64},         {60, 1, 8, 0},     {2, 2, 6, 1},
    {4, 2, 16, 0, 0, 3.0f},  {6, 2, 32, 40, 4}, {3, 1, 8, 20, 70},
    {2, 1, 64, 33, 1, 5.0f},
};

// A bias of keys that do not turn; twice as large at position 0.
class FixedBias final : public KeyBias {
 public:
  // Times `scales` [Hk * Dh], if there are any.
  explicit FixedBias(const Model& model, std::span<const float> scales = {})
      : size_(model.head_size) {
    std::mt19937 random(8);
    std::normal_distribution<float> normal;
    for (int i = 0; i < model.kv_heads * size_; ++i) bias_.push_back(normal(random));
    bias_[1] = 300;
    for (size_t i = 0; i < scales.size(); ++i) bias_[i] *= scales[i];
    for (int head = 0; head < model.kv_heads; ++head)
      for (int panel = 0; panel < kChunkPanels; ++panel)
        for (int d = 0; d < size_; ++d) panels_.insert(panels_.end(), kPanelTokens, at(1, head, d));
    first_panels_ = panels_;
    for (int head = 0; head < model.kv_heads; ++head)
      for (int d = 0; d < size_; ++d)
        first_panels_[static_cast<size_t>(head * kChunkTokens * size_ + d * kPanelTokens)] =
            at(0, head, d);
  }
  float at(int64_t position, int head, int d) const {
    return bias_[static_cast<size_t>(head * size_ + d)] * (position == 0 ? 2 : 1);
  }

  const float* panel(int head, int32_t chunk) const override {
    return (chunk == 0 ? first_panels_ : panels_).data() + int64_t{head} * kChunkTokens * size_;
  }
  void remove(int64_t position, int head, float* key) const override {
    for (int d = 0; d < size_; ++d) key[d] -= at(position, head, d);
  }
  void turn_back(int64_t /*position*/, const float* q, float* out) const override {
    std::copy_n(q, size_, out);
  }

 private:
  int size_;
  std::vector<float> bias_, panels_, first_panels_;
};

// x as `type` keeps it: rotated, stored and rotated back. The kernels are those that
// kernels/attention_test.cpp holds against their definition.
std::vector<float> as_kept(KvType type, const float* x, int size) {
  const AttentionKernels& kernels = kernel_table(isa_level()).attention[static_cast<int>(type)];
  const PageShape shape{size};
  std::vector<float> y(x, x + size), page(static_cast<size_t>(head_page_elements(shape)));
  std::vector<std::byte> stored(static_cast<size_t>(head_page_bytes(type, shape)));
  kernels.rotate(y.data(), size);
  kernels.store(y.data(), y.data(), shape, 0, stored.data());
  kernels.unpack(stored.data(), shape, page.data());
  std::copy_n(page.data() + int64_t{shape.tokens} * size, size, y.data());
  kernels.rotate(y.data(), size);
  return y;
}

TEST(PagedAttention, AgreesWithTheNaiveTwin) {
  for (const Model& model : kModels) {
    const int64_t tokens = 150;
    Sequence s = random_sequence(model, tokens, 3);
    const std::vector<float> y = run_alone(model, s, {tokens}, 2);
    for (int head = 0; head < model.heads; ++head) {
      const int kv_head = head / (model.heads / model.kv_heads);
      std::vector<float> keys, values;
      for (int64_t t = 0; t < tokens; ++t)
        for (int d = 0; d < model.head_size; ++d) {
          const auto i = static_cast<size_t>((t * model.kv_heads + kv_head) * model.head_size + d);
          keys.push_back(decode_f16(encode_f16(s.k[i])));
          values.push_back(decode_f16(encode_f16(s.v[i])));
        }
      for (int64_t t = 0; t < tokens; ++t) {
        const int64_t at = (t * model.heads + head) * model.head_size;
        const auto ref = ref::attention(
            s.q.data() + at, keys.data(), values.data(), model.head_size, static_cast<double>(0.3f),
            {model.window == 0 ? 0 : std::max<int64_t>(0, t - model.window + 1), t + 1,
             model.sinks},
            static_cast<double>(model.soft_cap));
        // The bound of kernels/attention_test.cpp.
        const double relative = 0x1p-24 * (2 * (model.head_size + 6) * ref.score_scale + 2 * 64 +
                                           16 * 4 + 12 * static_cast<double>(model.soft_cap));
        for (int d = 0; d < model.head_size; ++d)
          ASSERT_NEAR(y[static_cast<size_t>(at + d)], ref.y[static_cast<size_t>(d)],
                      relative * ref.value[static_cast<size_t>(d)])
              << "H " << model.heads << " head " << head << " t " << t;
      }
    }
  }
}

TEST(PagedAttention, AnyCutAnyThreadsAnyPagesGiveTheSameBits) {
  for (const Model& model : kModels) {
    const Sequence s = random_sequence(model, 700, 4);
    const std::vector<float> whole = run_alone(model, s, {700}, 1);
    EXPECT_EQ(run_alone(model, s, {700}, 2), whole);
    EXPECT_EQ(run_alone(model, s, {1}, 2, 5), whole) << "token by token";
    EXPECT_EQ(run_alone(model, s, {64}, 1), whole);
    EXPECT_EQ(run_alone(model, s, {5, 17, 1, 1, 300, 63, 1}, 3, 9), whole);
  }
}

// With the keys' bias as the model has it, the f64 twin sees what the pages keep of the rest.
TEST(PagedAttention, QuantizedPagesAgreeWithTheNaiveTwin) {
  for (const KvType type : {KvType::q8, KvType::q4})
    for (const bool biased : {false, true})
      for (const Model& model : kModels) {
        const int64_t tokens = 150;
        const FixedBias bias(model);
        Sequence s = random_sequence(model, tokens, 3);
        std::vector<float> kept_keys, kept_values;
        for (size_t i = 0; i < s.k.size(); i += static_cast<size_t>(model.head_size)) {
          std::vector<float> key = as_kept(type, &s.k[i], model.head_size);
          const std::vector<float> value = as_kept(type, &s.v[i], model.head_size);
          const int head = static_cast<int>(i) / model.head_size % model.kv_heads;
          const int64_t position = static_cast<int64_t>(i) / model.head_size / model.kv_heads;
          if (biased)
            for (int d = 0; d < model.head_size; ++d) {
              // An exact sum here, so that remove() finds the very key that as_kept() saw.
              const float b = bias.at(position, head, d);
              const float sum = s.k[i + static_cast<size_t>(d)] + b;
              s.k[i + static_cast<size_t>(d)] = sum - b;
            }
          if (biased) key = as_kept(type, &s.k[i], model.head_size);
          for (int d = 0; d < model.head_size; ++d) {
            const float b = biased ? bias.at(position, head, d) : 0;
            s.k[i + static_cast<size_t>(d)] += b;
            kept_keys.push_back(key[static_cast<size_t>(d)] + b);
            kept_values.push_back(value[static_cast<size_t>(d)]);
          }
        }
        const std::vector<float> y =
            run_alone(model, s, {tokens}, 2, 0, type, biased ? &bias : nullptr);
        for (int head = 0; head < model.heads; ++head) {
          const int kv_head = head / (model.heads / model.kv_heads);
          std::vector<float> keys, values;
          for (int64_t t = 0; t < tokens; ++t) {
            const auto at = (t * model.kv_heads + kv_head) * model.head_size;
            keys.insert(keys.end(), &kept_keys[static_cast<size_t>(at)],
                        &kept_keys[static_cast<size_t>(at)] + model.head_size);
            values.insert(values.end(), &kept_values[static_cast<size_t>(at)],
                          &kept_values[static_cast<size_t>(at)] + model.head_size);
          }
          for (int64_t t = 0; t < tokens; ++t) {
            const int64_t at = (t * model.heads + head) * model.head_size;
            const auto ref =
                ref::attention(s.q.data() + at, keys.data(), values.data(), model.head_size,
                               static_cast<double>(0.3f),
                               {model.window == 0 ? 0 : std::max<int64_t>(0, t - model.window + 1),
                                t + 1, model.sinks},
                               static_cast<double>(model.soft_cap));
            // As above; each rotation errs by up to 8 roundings of a sum of magnitudes, which is at
            // most sqrt(Dh) times what it was.
            const double root = std::sqrt(static_cast<double>(model.head_size));
            const double relative =
                0x1p-24 * (2 * (model.head_size + 6 + 16 * root) * ref.score_scale + 2 * 64 +
                           16 * 4 + 12 * static_cast<double>(model.soft_cap));
            double largest = 0;
            for (const double v : ref.value) largest = std::max(largest, v);
            for (int d = 0; d < model.head_size; ++d)
              ASSERT_NEAR(y[static_cast<size_t>(at + d)], ref.y[static_cast<size_t>(d)],
                          (relative + 0x1p-24 * 16 * root) * root * largest)
                  << kv_type_name(type) << " bias " << biased << " H " << model.heads << " head "
                  << head << " t " << t;
          }
        }
      }
}

// By powers of two both ways are exact.
TEST(PagedAttention, ScalesOfKeysAreAsLargerKeysAndSmallerQueries) {
  for (const KvType type : {KvType::q8, KvType::q4})
    for (const Model& model : kModels) {
      const int64_t size = model.head_size, group = model.heads / model.kv_heads;
      std::vector<float> scales;
      for (int64_t i = 0; i < model.kv_heads * size; ++i)
        scales.push_back(std::ldexp(1.0f, static_cast<int>(i * 5 % 7) - 3));
      const FixedBias bias(model), scaled_bias(model, scales);
      const Sequence s = random_sequence(model, 150, 4);
      Sequence scaled = s;
      for (size_t i = 0; i < s.k.size(); ++i) scaled.k[i] *= scales[i % scales.size()];
      for (size_t i = 0; i < s.q.size(); ++i) {
        const auto at = static_cast<int64_t>(i) % (model.heads * size);
        scaled.q[i] /= scales[static_cast<size_t>(at / size / group * size + at % size)];
      }
      const std::vector<float> want = run_alone(model, scaled, {150}, 1, 0, type, &scaled_bias);
      const auto got = [&](const std::vector<int64_t>& cuts) {
        return run_alone(model, s, cuts, 2, 0, type, &bias, kDefaultPageTokens, scales);
      };
      EXPECT_EQ(got({150}), want);
      EXPECT_EQ(got({1}), want) << "token by token";
      // A query that sees one key gives it all its weight, whatever the key.
      if (model.window != 1) {
        EXPECT_NE(run_alone(model, s, {150}, 2, 0, type, &bias), want) << "scales that do nothing";
      }
    }
}

TEST(PagedAttention, QuantizedPagesGiveTheSameBitsHoweverCut) {
  for (const KvType type : {KvType::q8, KvType::q4})
    for (const Model& model : kModels) {
      const FixedBias bias(model);
      const Sequence s = random_sequence(model, 300, 4);
      const std::vector<float> whole = run_alone(model, s, {300}, 1, 0, type, &bias);
      EXPECT_EQ(run_alone(model, s, {1}, 2, 5, type, &bias), whole) << "token by token";
      EXPECT_EQ(run_alone(model, s, {5, 17, 1, 1, 130, 63, 1}, 3, 9, type, &bias), whole);
    }
}

// Windows, sinks, soft caps, every type and biases of keys.
TEST(PagedAttention, AnySizeOfPagesGivesTheSameBits) {
  for (int t = 0; t < kKvTypes; ++t)
    for (const Model& model : kModels) {
      const auto type = static_cast<KvType>(t);
      const FixedBias bias(model);
      const Sequence s = random_sequence(model, 300, 4);
      const std::vector<float> usual = run_alone(model, s, {300}, 1, 0, type, &bias);
      for (const int tokens : kPageSizes) {
        SCOPED_TRACE(testing::Message() << kv_type_name(type) << " H " << model.heads << " window "
                                        << model.window << " pages of " << tokens);
        EXPECT_EQ(run_alone(model, s, {300}, 1, 3, type, &bias, tokens), usual);
        EXPECT_EQ(run_alone(model, s, {5, 17, 1, 1, 130, 63, 1}, 2, 9, type, &bias, tokens), usual);
      }
    }
}

// A sequence that sees less than the layer gives the bits of a layer that sees as much.
TEST(PagedAttention, ASequenceMaySeeLessThanItsLayer) {
  for (const Model& narrow : {Model{6, 2, 16, 30}, Model{6, 2, 16, 30, 4}, Model{4, 1, 8, 9, 70}}) {
    Sequence s = random_sequence(narrow, 300, 6);
    const std::vector<float> want = run_alone(narrow, s, {300}, 1);
    s.window = narrow.window;
    s.sinks = narrow.sinks;
    Model wide = narrow;
    wide.sinks = 0;
    for (const int64_t window : {0, 100}) {
      wide.window = window;
      EXPECT_EQ(run_alone(wide, s, {300}, 2), want);
      EXPECT_EQ(run_alone(wide, s, {1}, 2), want);
    }
  }
}

TEST(PagedAttention, AloneAndInABatchGiveTheSameBits) {
  const Model model = kModels[0];
  std::vector<Sequence> sequences;
  std::vector<std::vector<float>> alone;
  for (uint32_t i = 0; i < 12; ++i) {
    sequences.push_back(random_sequence(model, 20 + 37 * i, 100 + i));
    alone.push_back(run_alone(model, sequences.back(), {1000}, 1));
  }
  ThreadPool pool(2);
  Layer layer(model, 400);
  layer.shuffle(1);
  std::mt19937 random(2);
  for (bool left = true; left;) {
    left = false;
    std::vector<Sequence*> step;
    std::vector<int64_t> rows;
    for (Sequence& s : sequences) {
      const int64_t rest = static_cast<int64_t>(s.q.size()) / (9 * 64) - s.length;
      if (rest == 0) continue;
      left = true;
      if (random() % 4 == 0) continue;
      step.push_back(&s);
      rows.push_back(std::min<int64_t>(rest, random() % 2 == 0 ? 1 : 1 + random() % 90));
    }
    layer.step(step, rows, pool);
  }
  for (size_t i = 0; i < sequences.size(); ++i) EXPECT_EQ(sequences[i].y, alone[i]) << i;
}

TEST(PagedAttention, RefusesShapesThatDoNotMatch) {
  Arena arena;
  ThreadPool pool(1);
  PagedAttentionWorkspace workspace;
  const OpContext context{&kernel_table(IsaLevel::scalar), &pool};
  PagedAttention a{.heads = 4, .kv_heads = 2, .head_size = 8, .sequences = {}};
  const Tensor q = arena.tensor(DType::f32, 3, 32), k = arena.tensor(DType::f32, 3, 16);
  const Tensor wrong = arena.tensor(DType::f32, 3, 24);
  EXPECT_THROW(paged_attention(a, q, wrong, k, q, workspace, context), Error);
  EXPECT_THROW(paged_attention(a, wrong, k, k, q, workspace, context), Error);
  const std::vector<int32_t> pages = {0};
  const PagedRows rows{0, 3, 15, pages};
  a.sequences = {&rows, 1};
  EXPECT_THROW(paged_attention(a, q, k, k, q, workspace, context), Error);
}

}  // namespace
}  // namespace strata
