#include "ops/train_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "kernels/train_attention.h"
#include "kernels/train_rows.h"

namespace strata {
namespace {

// Packed keys and values in memory at a time, in floats, when more than one head takes part.
constexpr int64_t kPackedFloats = int64_t{16} << 20;
// Tokens one thread packs at a time; a multiple of every tile's width.
constexpr int64_t kPackTokens = 256;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

void check_columns(const char* op, const char* operand, const Tensor& t, int64_t columns,
                   const char* what) {
  if (t.dtype != DType::f32) fail(ErrorCode::invalid_argument, "{}: {} is not f32", op, operand);
  if (t.columns != columns)
    fail(ErrorCode::invalid_argument, "{}: {} has {} columns, {} make {}", op, operand, t.columns,
         what, columns);
}

void check_rows(const char* op, const char* operand, const Tensor& t, const char* other,
                const Tensor& like) {
  if (t.rows != like.rows)
    fail(ErrorCode::invalid_argument, "{}: {} has {} rows, {} has {}", op, operand, t.rows, other,
         like.rows);
}

void check(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& y,
           const AttentionHeads& heads, const AttentionVisibility& visible,
           const AttentionSaved& saved) {
  if (heads.heads < 1 || heads.kv_heads < 1 || heads.heads % heads.kv_heads != 0)
    fail(ErrorCode::invalid_argument, "{}: {} heads are no multiple of {} key-value heads", op,
         heads.heads, heads.kv_heads);
  if (heads.head_size < 1 || heads.head_size > 1024)
    fail(ErrorCode::invalid_argument, "{}: head_size is {}, wanted 1 to 1024", op, heads.head_size);
  const int64_t wide = int64_t{heads.heads} * heads.head_size;
  const int64_t narrow = int64_t{heads.kv_heads} * heads.head_size;
  check_columns(op, "q", q, wide, "its heads");
  check_columns(op, "k", k, narrow, "its heads");
  check_columns(op, "v", v, narrow, "its heads");
  check_columns(op, "y", y, wide, "the heads of q");
  check_rows(op, "v", v, "k", k);
  check_rows(op, "y", y, "q", q);
  if (saved.stride < q.rows)
    fail(ErrorCode::invalid_argument, "{}: saved has room for {} rows, q has {}", op, saved.stride,
         q.rows);
  const float p = heads.dropout.probability;
  if (!(p >= 0 && p < 1) || heads.dropout.place >= 1u << 28)
    fail(ErrorCode::invalid_argument, "{}: dropout has probability {} and place {}", op, p,
         heads.dropout.place);
  if (p > 0 && (heads.heads > 1 << 12 || k.rows > 1 << 23))
    fail(ErrorCode::invalid_argument, "{}: dropout takes at most 4096 heads and 8388608 keys", op);
  for (const AttentionSequence& s : visible.sequences) {
    if (s.first_query < 0 || s.queries < 0 || s.first_query + s.queries > q.rows)
      fail(ErrorCode::invalid_argument, "{}: a sequence has queries [{}, {}), q has {} rows", op,
           s.first_query, s.first_query + s.queries, q.rows);
    if (s.first_key < 0 || s.keys < 0 || s.first_key + s.keys > k.rows)
      fail(ErrorCode::invalid_argument, "{}: a sequence has keys [{}, {}), k has {} rows", op,
           s.first_key, s.first_key + s.keys, k.rows);
    for (int64_t n = s.first_query; n < s.first_query + s.queries; ++n)
      if (visible.begin[n] < 0 || visible.end[n] > s.keys)
        fail(ErrorCode::invalid_argument, "{}: row {} of q sees keys [{}, {}), its sequence has {}",
             op, n, visible.begin[n], visible.end[n], s.keys);
  }
}

// The heads of the batch as one list: KV head after KV head of sequence after sequence.
struct Pairs {
  const AttentionVisibility& visible;
  const AttentionHeads& heads;

  int64_t count() const { return static_cast<int64_t>(visible.sequences.size()) * heads.kv_heads; }
  const AttentionSequence& sequence(int64_t pair) const {
    return visible.sequences[static_cast<size_t>(pair / heads.kv_heads)];
  }
  // First column of the pair's KV head.
  int64_t kv_column(int64_t pair) const { return pair % heads.kv_heads * heads.head_size; }
  int group() const { return heads.heads / heads.kv_heads; }
  // The pair's query head number i.
  int64_t head(int64_t pair, int64_t i) const { return pair % heads.kv_heads * group() + i; }
  int64_t packed_floats(int64_t pair) const {
    const int64_t keys = sequence(pair).keys;
    return packed_keys_floats(keys, heads.head_size) + packed_values_floats(keys, heads.head_size);
  }
};

// Draws which weights of one head are kept.
class WeightMask {
 public:
  WeightMask(const TrainRowKernels& kernels, const DropoutMask& mask, int64_t head)
      : kernels_(kernels),
        seed_(mask.seed),
        step_(mask.step),
        purpose_(static_cast<uint32_t>(RandomPurpose::dropout) | mask.place << 4),
        head_(static_cast<uint32_t>(head) << 20),
        limit_(limit(mask.probability)) {}

  // Of 65,536; one at least is kept, so that the scale is finite.
  static uint32_t limit(float probability) {
    return static_cast<uint32_t>(std::min(std::lround(double{probability} * 65536), 65535L));
  }
  static float scale(float probability) {
    return 65536.0f / static_cast<float>(65536 - limit(probability));
  }
  // Of row `row`, keys [first, first + 8 bytes) of the sequence, first a multiple of 8.
  void fill(int64_t row, int64_t first, int64_t bytes, uint8_t* out) const {
    constexpr int64_t kBytes = 64;
    uint32_t words[4 * kBytes];
    for (int64_t begin = 0; begin < bytes; begin += kBytes) {
      const int64_t count = std::min(kBytes, bytes - begin);
      kernels_.philox({{static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)},
                       static_cast<uint32_t>(first / 8 + begin) + head_,
                       {step_, purpose_, static_cast<uint32_t>(row)}},
                      count, words);
      for (int64_t b = 0; b < count; ++b) {
        uint32_t bits = 0;
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t word = words[4 * b + i];
          bits |= static_cast<uint32_t>((word & 0xffffu) >= limit_) << (2 * i);
          bits |= static_cast<uint32_t>((word >> 16) >= limit_) << (2 * i + 1);
        }
        out[begin + b] = static_cast<uint8_t>(bits);
      }
    }
  }

 private:
  const TrainRowKernels& kernels_;
  uint64_t seed_;
  uint32_t step_, purpose_, head_, limit_;
};

// Bytes of one row's mask: kernels read whole tiles of 16 keys.
int64_t mask_bytes(int64_t keys) { return 2 * ceil_div(keys, 16); }
// Floats that hold the masks of `rows` rows of `keys` keys.
int64_t mask_floats(const AttentionHeads& heads, int64_t rows, int64_t keys) {
  return heads.dropout.probability > 0 ? ceil_div(rows * mask_bytes(keys), 64) * 16 : 0;
}

// Calls fn(index, thread) for each index < count on whichever thread is free.
template <typename Fn>
void run_each(ThreadPool& pool, int64_t count, const Fn& fn) {
  std::atomic<int64_t> next = 0;
  pool.run([&](int thread) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) fn(i, thread);
  });
}

}  // namespace

void attention_ranges(std::span<const AttentionSequence> sequences, AttentionMask mask,
                      int64_t window, int32_t* begin, int32_t* end) {
  for (const AttentionSequence& s : sequences)
    for (int64_t i = 0; i < s.queries; ++i) {
      const int64_t past = s.keys - s.queries + i + 1;  // its own position is the last it sees
      const int64_t last = mask == AttentionMask::causal ? past : s.keys;
      begin[s.first_query + i] =
          static_cast<int32_t>(window > 0 ? std::max<int64_t>(past - window, 0) : 0);
      end[s.first_query + i] = static_cast<int32_t>(std::max<int64_t>(last, 0));
    }
}

void train_attention_forward(const Tensor& q, const Tensor& k, const Tensor& v,
                             const AttentionHeads& heads, const AttentionVisibility& visible,
                             const Tensor& y, const AttentionSaved& saved, Workspace& workspace,
                             const OpContext& context) {
  check("attention_forward", q, k, v, y, heads, visible, saved);
  const TrainAttentionKernels& kernels = *context.kernels->train_attention;
  ThreadPool& pool = *context.pool;
  const Pairs pairs{visible, heads};
  const int Dh = heads.head_size;
  int64_t all_keys = 0;
  for (const AttentionSequence& s : visible.sequences) all_keys = std::max(all_keys, s.keys);
  const int64_t block_floats = ceil_div(forward_scratch_floats(Dh), 16) * 16;
  const int64_t scratch_floats = block_floats + mask_floats(heads, kForwardQueries, all_keys);

  // Heads in groups whose packed keys and values fit together.
  for (int64_t first = 0, last; first < pairs.count(); first = last) {
    int64_t floats = pairs.packed_floats(first);
    int64_t longest_keys = pairs.sequence(first).keys;
    int64_t most_queries = pairs.sequence(first).queries;
    for (last = first + 1; last < pairs.count(); ++last) {
      if (floats + pairs.packed_floats(last) > kPackedFloats) break;
      floats += pairs.packed_floats(last);
      longest_keys = std::max(longest_keys, pairs.sequence(last).keys);
      most_queries = std::max(most_queries, pairs.sequence(last).queries);
    }
    // Room for `last - first` heads of the longest sequence, so that a head's place is its number.
    const int64_t keys_floats = packed_keys_floats(longest_keys, Dh);
    const int64_t pair_floats = keys_floats + packed_values_floats(longest_keys, Dh);
    last = std::min(
        last, first + std::max<int64_t>(kPackedFloats / std::max<int64_t>(pair_floats, 1), 1));
    float* packed =
        workspace.floats((last - first) * pair_floats + pool.threads() * scratch_floats);
    float* scratch = packed + (last - first) * pair_floats;

    const int64_t pieces = ceil_div(longest_keys, kPackTokens);
    pool.parallel_for((last - first) * pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t pair = first + unit / pieces, token = unit % pieces * kPackTokens;
        const AttentionSequence& s = pairs.sequence(pair);
        const int64_t tokens = std::min(kPackTokens, s.keys - token);
        if (tokens <= 0) continue;
        float* keys = packed + (pair - first) * pair_floats;
        kernels.pack_keys(k.row<float>(s.first_key) + pairs.kv_column(pair), k.stride, token,
                          tokens, Dh, keys);
        kernels.pack_values(v.row<float>(s.first_key) + pairs.kv_column(pair), v.stride, token,
                            tokens, s.keys, Dh, keys + keys_floats);
      }
    });

    const int64_t blocks = ceil_div(most_queries, kForwardQueries);
    const int64_t group = pairs.group();
    run_each(pool, (last - first) * group * blocks, [&](int64_t unit, int thread) {
      const int64_t pair = first + unit / (group * blocks);
      const int64_t head = pairs.head(pair, unit / blocks % group);
      // The last block of a causal sequence is the longest: it comes first.
      const int64_t query = (blocks - 1 - unit % blocks) * kForwardQueries;
      const AttentionSequence& s = pairs.sequence(pair);
      if (query >= s.queries) return;
      const int64_t row = s.first_query + query;
      AttentionForward block;
      block.q = q.row<float>(row) + head * Dh;
      block.q_stride = q.stride;
      block.queries = static_cast<int>(std::min<int64_t>(kForwardQueries, s.queries - query));
      block.begin = visible.begin + row;
      block.end = visible.end + row;
      block.packed_keys = packed + (pair - first) * pair_floats;
      block.packed_values = block.packed_keys + keys_floats;
      block.keys = s.keys;
      block.head_size = Dh;
      block.scale = heads.scale;
      block.y = y.row<float>(row) + head * Dh;
      block.y_stride = y.stride;
      block.max = saved.max + head * saved.stride + row;
      block.sum = saved.sum + head * saved.stride + row;
      block.scratch = scratch + thread * scratch_floats;
      if (heads.dropout.probability > 0) {
        auto* bits = reinterpret_cast<uint8_t*>(block.scratch + block_floats);
        block.kept = {bits, mask_bytes(s.keys), WeightMask::scale(heads.dropout.probability)};
        const WeightMask mask(*context.kernels->train_rows, heads.dropout, head);
        for (int i = 0; i < block.queries; ++i) {
          const int64_t from = std::max(block.begin[i], 0) / 8;
          mask.fill(row + i, 8 * from, ceil_div(block.end[i], 8) - from,
                    bits + i * block.kept.stride + from);
        }
      }
      kernels.forward(block);
    });
  }
}

namespace {

// What one thread needs for one head of the longest sequence.
struct BackwardScratch {
  int64_t q, d_y, d_q, sums, d_k, d_v, block, mask, total;
};
BackwardScratch backward_scratch(int64_t queries, int64_t keys, const AttentionHeads& heads) {
  const int head_size = heads.head_size;
  BackwardScratch s{};
  const int64_t stride = packed_stride(head_size);
  // Each part begins on a cache line.
  const auto line = [](int64_t floats) { return ceil_div(floats, 16) * 16; };
  s.q = 0;
  s.d_y = s.q + queries * stride;
  s.d_q = s.d_y + queries * stride;
  s.d_k = s.d_q + queries * stride;
  s.d_v = s.d_k + keys * stride;
  s.sums = s.d_v + keys * stride;
  s.block = line(s.sums + 3 * queries);
  s.mask = line(s.block + backward_scratch_floats(head_size));
  s.total = s.mask + mask_floats(heads, queries, kBackwardTokens);
  return s;
}

}  // namespace

void train_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionHeads& heads, const AttentionVisibility& visible,
                              const Tensor& y, const AttentionSaved& saved, const Tensor& d_y,
                              const AttentionGradients& out, Workspace& workspace,
                              const OpContext& context) {
  constexpr const char* kOp = "attention_backward";
  check(kOp, q, k, v, y, heads, visible, saved);
  check_columns(kOp, "d_y", d_y, q.columns, "the heads of q");
  check_columns(kOp, "d_q", out.d_q, q.columns, "the heads of q");
  check_columns(kOp, "d_k", out.d_k, k.columns, "the heads of k");
  check_columns(kOp, "d_v", out.d_v, k.columns, "the heads of k");
  check_rows(kOp, "d_y", d_y, "q", q);
  check_rows(kOp, "d_q", out.d_q, "q", q);
  check_rows(kOp, "d_k", out.d_k, "k", k);
  check_rows(kOp, "d_v", out.d_v, "k", k);
  const TrainAttentionKernels& kernels = *context.kernels->train_attention;
  const Pairs pairs{visible, heads};
  const int Dh = heads.head_size;
  const int64_t stride = packed_stride(Dh);
  int64_t most_queries = 0, most_keys = 0;
  for (const AttentionSequence& s : visible.sequences) {
    most_queries = std::max(most_queries, s.queries);
    most_keys = std::max(most_keys, s.keys);
  }
  const BackwardScratch part = backward_scratch(most_queries, most_keys, heads);
  const int threads = context.pool->threads();
  float* memory = workspace.floats(part.total *
                                   std::min<int64_t>(threads, std::max<int64_t>(pairs.count(), 1)));

  std::atomic<int> places = 0;
  std::atomic<int64_t> next = 0;
  context.pool->run([&](int) {
    float* scratch = nullptr;
    for (int64_t pair; (pair = next.fetch_add(1, std::memory_order_relaxed)) < pairs.count();) {
      // At most as many threads get here as there are pairs.
      if (scratch == nullptr)
        scratch = memory + part.total * places.fetch_add(1, std::memory_order_relaxed);
      const AttentionSequence& s = pairs.sequence(pair);
      const int64_t row = s.first_query;
      std::fill_n(scratch + part.d_k, s.keys * stride, 0.0f);
      std::fill_n(scratch + part.d_v, s.keys * stride, 0.0f);
      AttentionBackward block;
      block.packed.q = scratch + part.q;
      block.packed.d_y = scratch + part.d_y;
      block.packed.max = scratch + part.sums;
      block.packed.inverse_sum = block.packed.max + s.queries;
      block.packed.delta = block.packed.inverse_sum + s.queries;
      block.queries = s.queries;
      block.begin = visible.begin + row;
      block.end = visible.end + row;
      block.k = k.row<float>(s.first_key) + pairs.kv_column(pair);
      block.v = v.row<float>(s.first_key) + pairs.kv_column(pair);
      block.k_stride = k.stride;
      block.v_stride = v.stride;
      block.head_size = Dh;
      block.d_q = scratch + part.d_q;
      block.scratch = scratch + part.block;
      for (int64_t i = 0; i < pairs.group(); ++i) {
        const int64_t head = pairs.head(pair, i);
        AttentionPackQueries pack;
        pack.q = q.row<float>(row) + head * Dh;
        pack.y = y.row<float>(row) + head * Dh;
        pack.d_y = d_y.row<float>(row) + head * Dh;
        pack.q_stride = q.stride;
        pack.y_stride = y.stride;
        pack.d_y_stride = d_y.stride;
        pack.max = saved.max + head * saved.stride + row;
        pack.sum = saved.sum + head * saved.stride + row;
        pack.queries = s.queries;
        pack.head_size = Dh;
        pack.scale = heads.scale;
        pack.out = block.packed;
        kernels.pack_queries(pack);
        std::fill_n(block.d_q, s.queries * stride, 0.0f);
        for (int64_t key = 0; key < s.keys; key += kBackwardTokens) {
          block.first_key = key;
          block.keys = static_cast<int>(std::min<int64_t>(kBackwardTokens, s.keys - key));
          block.d_k = scratch + part.d_k + key * stride;
          block.d_v = scratch + part.d_v + key * stride;
          if (heads.dropout.probability > 0) {
            const int64_t row_bytes = mask_bytes(kBackwardTokens);
            auto* bits = reinterpret_cast<uint8_t*>(scratch + part.mask);
            block.kept = {bits, row_bytes, WeightMask::scale(heads.dropout.probability)};
            const WeightMask mask(*context.kernels->train_rows, heads.dropout, head);
            for (int64_t n = 0; n < s.queries; ++n)
              if (block.begin[n] < key + block.keys && block.end[n] > key)
                mask.fill(row + n, key, row_bytes, bits + n * row_bytes);
          }
          kernels.backward(block);
        }
        kernels.unpack(block.d_q, s.queries, Dh, heads.scale, out.d_q.row<float>(row) + head * Dh,
                       out.d_q.stride);
      }
      constexpr float kLn2 = 0.69314718055994531f;  // q' holds log2 e
      const int64_t column = pairs.kv_column(pair);
      kernels.unpack(scratch + part.d_k, s.keys, Dh, kLn2, out.d_k.row<float>(s.first_key) + column,
                     out.d_k.stride);
      kernels.unpack(scratch + part.d_v, s.keys, Dh, 1.0f, out.d_v.row<float>(s.first_key) + column,
                     out.d_v.stride);
    }
  });
}

}  // namespace strata
