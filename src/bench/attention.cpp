#include "bench/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/aligned.h"
#include "base/error.h"
#include "bench/timing.h"
#include "kernels/attention.h"
#include "ops/paged_attention.h"
#include "tensor/arena.h"

namespace strata {
namespace {

// More than any last-level cache of the machines we know holds.
constexpr int64_t kColdBytes = int64_t{384} << 20;
constexpr double kSecondsPerRepeat = 0.05;

// Of both signs, no two rows alike.
Tensor random_rows(Arena& arena, int64_t rows, int64_t columns, uint64_t seed) {
  const Tensor t = arena.tensor(DType::f32, rows, columns);
  uint64_t state = seed;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      t.row<float>(r)[c] = static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1;
    }
  return t;
}

Tensor last_rows(const Tensor& t, int64_t rows) {
  Tensor view = t;
  view.rows = rows;
  view.data = t.row<float>(t.rows - rows);
  return view;
}

// The layers' caches, pages in order.
class Cache {
 public:
  Cache(const AttentionCase& c, int64_t layers)
      : pages_(static_cast<size_t>((c.context + c.page_tokens - 1) / c.page_tokens)),
        page_bytes_(c.kv_heads * head_page_bytes(c.kv_type, {c.head_size, c.page_tokens})),
        memory_(static_cast<size_t>(layers * layer_bytes()), HugePages::advise) {
    std::iota(pages_.begin(), pages_.end(), 0);
  }
  int64_t layer_bytes() const { return static_cast<int64_t>(pages_.size()) * page_bytes_; }
  int64_t page_bytes() const { return page_bytes_; }
  std::span<const int32_t> pages() const { return pages_; }
  std::byte* layer(int64_t i) const { return memory_.as<std::byte>() + i * layer_bytes(); }

 private:
  std::vector<int32_t> pages_;
  int64_t page_bytes_;
  AlignedBuffer memory_;
};

}  // namespace

void check_case(const AttentionCase& c) {
  if (c.heads < 1 || c.kv_heads < 1 || c.heads % c.kv_heads != 0)
    fail(ErrorCode::invalid_argument,
         "bench attention: {} heads over {} KV heads, wanted a multiple", c.heads, c.kv_heads);
  if (c.queries < 1 || c.queries > c.context)
    fail(ErrorCode::invalid_argument, "bench attention: {} queries in a context of {} tokens",
         c.queries, c.context);
}

Measurement measure_attention(const AttentionCase& c, const OpContext& context, int repeats,
                              const std::function<void()>& check) {
  check_case(c);
  const int64_t one_layer = Cache(c, 0).layer_bytes();
  const int64_t layers = c.queries < 64 ? std::max<int64_t>(1, kColdBytes / one_layer) : 1;
  const Cache cache(c, layers);
  Arena arena;
  const int64_t kv_width = int64_t{c.kv_heads} * c.head_size;
  const Tensor q = random_rows(arena, c.context, int64_t{c.heads} * c.head_size, 1);
  const Tensor k = random_rows(arena, c.context, kv_width, 2);
  const Tensor v = random_rows(arena, c.context, kv_width, 3);
  const Tensor y = arena.tensor(DType::f32, c.context, q.columns);
  PagedAttentionWorkspace workspace;

  const auto attend = [&](int64_t layer, int64_t rows) {
    const PagedRows sequence{0, rows, c.context - rows, cache.pages()};
    PagedAttention a;
    a.type = c.kv_type;
    a.page_tokens = c.page_tokens;
    a.base = cache.layer(layer);
    a.page_stride = cache.page_bytes();
    a.heads = c.heads;
    a.kv_heads = c.kv_heads;
    a.head_size = c.head_size;
    a.scale = 1.0f / std::sqrt(static_cast<float>(c.head_size));
    a.sequences = {&sequence, 1};
    paged_attention(a, last_rows(q, rows), last_rows(k, rows), last_rows(v, rows),
                    last_rows(y, rows), workspace, context);
  };
  // Fills the caches; keys before the queries are written here only.
  attend(0, c.context);
  for (int64_t layer = 1; layer < layers; ++layer)
    std::memcpy(cache.layer(layer), cache.layer(0), static_cast<size_t>(one_layer));

  int64_t next = 0;
  const auto step = [&] { attend(next++ % layers, c.queries); };
  const double start = now_seconds();
  step();
  const double once = std::max(now_seconds() - start, 1e-7);
  const auto calls = std::max<int64_t>(1, static_cast<int64_t>(kSecondsPerRepeat / once));

  // Query i of the last `queries` sees context - queries + 1 + i keys.
  const double keys =
      static_cast<double>(c.queries) * static_cast<double>(2 * c.context - c.queries + 1) / 2;
  const double operations = 4.0 * c.head_size * c.heads * keys;
  Measurement m;
  m.what = "attention_forward";
  m.params = {{"heads", c.heads},         {"kv_heads", c.kv_heads},
              {"head_size", c.head_size}, {"context", c.context},
              {"queries", c.queries},     {"kv_type", kv_type_name(c.kv_type)}};
  if (c.page_tokens != kDefaultPageTokens) m.params["page_size"] = c.page_tokens;
  m.unit = "GFLOP/s";
  for (int r = -1; r < repeats; ++r) {  // the first warms up
    if (check) check();
    const double begin = now_seconds();
    for (int64_t i = 0; i < calls; ++i) step();
    const double seconds = (now_seconds() - begin) / static_cast<double>(calls);
    if (r >= 0) m.values.push_back(1e-9 * operations / seconds);
  }
  m.work.add_product(TensorType::f32, operations);
  m.work.read_bytes = static_cast<double>(c.context * cache.page_bytes()) / c.page_tokens;
  m.units = 1e-9 * operations;
  return m;
}

}  // namespace strata
