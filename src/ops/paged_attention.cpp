#include "ops/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace strata {
namespace {

using Unit = PagedAttentionWorkspace::Unit;
using Split = PagedAttentionWorkspace::Split;

// Queries of a unit: some register tiles, whose running sums stay in the first-level cache beside
// the chunk's keys and values.
constexpr int64_t kUnitQueries = 8 * kQueryTile;
// Reading a chunk from memory takes about as long as so many queries of it.
constexpr int64_t kReadingQueries = 3;
// A decode step is cut by chunks only when a unit still gets this many, and only when there are
// fewer heads than this many a thread to deal out.
constexpr int64_t kLeastChunksOfUnit = 4;
constexpr int64_t kUnitsPerThread = 4;
// Query-chunk pairs done by the time another thread has woken up.
constexpr int64_t kSerialWork = 12;
// Token rows worth storing on several threads.
constexpr int64_t kSerialStore = 16;

struct Sums {
  explicit Sums(float* memory, int64_t queries, int64_t padded) {
    sums = {memory, memory + queries, memory + 2 * queries};
    floats = queries * (2 + padded);
  }
  AttentionSums sums;
  int64_t floats;
};

class Call {
 public:
  Call(const PagedAttention& a, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& y,
       PagedAttentionWorkspace& workspace, const OpContext& context)
      : a_(a),
        q_(q),
        k_(k),
        v_(v),
        y_(y),
        w_(workspace),
        context_(context),
        kernels_(context.kernels->attention[static_cast<size_t>(a.type)]),
        page_{a.head_size, a.page_tokens},
        quantized_(is_quantized(a.type)),
        chunk_(quantized_ ? context.kernels->attention[static_cast<size_t>(KvType::f32)].chunk
                          : kernels_.chunk),
        key_bias_(quantized_ ? a.key_bias : nullptr),
        group_(a.heads / a.kv_heads),
        padded_(padded_head(a.head_size)) {}

  void run() {
    plan();
    for (const PagedRows& s : a_.sequences) {
      stored_rows_ += s.rows;
      // A chunk of sinks and one of the window may be the same memory, read by two units.
      stored_before_ = stored_before_ || s.rows > 1 || sinks_of(s) > 0;
    }
    if (stored_before_) store_all();
    const int threads = context_.pool->threads();
    if (w_.scratch.size() < static_cast<size_t>(threads))
      w_.scratch.resize(static_cast<size_t>(threads));
    if (work_ <= kSerialWork || threads == 1) {
      for (const Unit& unit : w_.units) attend(unit, 0);
      return;
    }
    std::atomic<size_t> next = 0;
    context_.pool->run([&](int thread) {
      for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < w_.units.size();)
        attend(w_.units[i], static_cast<size_t>(thread));
    });
  }

 private:
  int64_t window_of(const PagedRows& s) const { return s.window > 0 ? s.window : a_.window; }
  int64_t sinks_of(const PagedRows& s) const {
    if (window_of(s) == 0) return 0;
    return s.window > 0 ? s.sinks : a_.sinks;
  }
  // The row at `position` sees the positions from here on, and when that is not 0 the sinks, too.
  int64_t first_seen(const PagedRows& s, int64_t position) const {
    const int64_t window = window_of(s);
    const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, position - window + 1);
    return first <= sinks_of(s) ? 0 : first;
  }

  // The i-th chunk that a unit sees.
  static int32_t chunk_of(const Unit& unit, int64_t i) {
    return static_cast<int32_t>(i < unit.sink_chunks ? i : i + unit.gap);
  }

  // Rows of a unit: as few units as keep all threads busy, since each of them reads the keys again.
  // Threads take whole units, so the time is that of whoever has one more than the others.
  int64_t rows_of_unit(const PagedRows& s) const {
    const int64_t threads = context_.pool->threads();
    const int64_t most = std::max<int64_t>(1, kUnitQueries / group_);
    const int64_t least = (kQueryTile + group_ - 1) / group_;
    const int64_t fewest = (s.rows + most - 1) / most;
    int64_t best = most, best_time = std::numeric_limits<int64_t>::max();
    for (int64_t blocks = fewest; blocks <= fewest + 2 * threads; ++blocks) {
      const int64_t rows = (s.rows + blocks - 1) / blocks;
      if (blocks > fewest && rows < least) break;
      const int64_t turns = (a_.kv_heads * blocks + threads - 1) / threads;
      const int64_t time = turns * (kReadingQueries + rows * group_);
      if (time >= best_time) continue;
      best = rows;
      best_time = time;
    }
    return best;
  }

  void plan() {
    w_.units.clear();
    w_.splits.clear();
    const auto pairs = static_cast<int64_t>(a_.sequences.size()) * a_.kv_heads;
    const int64_t wanted = kUnitsPerThread * context_.pool->threads();
    int64_t partial_floats = 0;
    for (size_t i = 0; i < a_.sequences.size(); ++i) {
      const PagedRows& s = a_.sequences[i];
      const int64_t block = rows_of_unit(s);
      // The last rows see most: they go first, so that no thread is left with a big one at the end.
      for (int64_t last = s.rows; last > 0; last -= std::min(block, last)) {
        const int64_t first = std::max<int64_t>(0, last - block);
        const int64_t end = s.first_position + last;
        const int64_t first_chunk = first_seen(s, s.first_position + first) / kChunkTokens;
        const int64_t last_chunk = (end + kChunkTokens - 1) / kChunkTokens;
        const int64_t sink_chunks =
            first_seen(s, end - 1) == 0 ? 0 : (sinks_of(s) + kChunkTokens - 1) / kChunkTokens;
        const int64_t chunks = sink_chunks + last_chunk - first_chunk;
        work_ += chunks * (last - first) * a_.heads;
        const int64_t parts = s.rows > 1 || pairs >= wanted || context_.pool->threads() == 1
                                  ? 1
                                  : std::min(chunks / kLeastChunksOfUnit, wanted / pairs);
        for (int32_t head = 0; head < a_.kv_heads; ++head) {
          Unit unit{static_cast<int32_t>(i),   head, first, last, 0, chunks, sink_chunks,
                    first_chunk - sink_chunks, -1};
          if (parts <= 1) {
            w_.units.push_back(unit);
            continue;
          }
          unit.split = static_cast<int32_t>(w_.splits.size());
          w_.splits.push_back({nullptr, chunks, static_cast<int32_t>(parts)});
          partial_floats += chunks * group_ * (2 + padded_);
          for (int64_t part = 0; part < parts; ++part) {
            unit.first_chunk = chunks * part / parts;
            unit.last_chunk = chunks * (part + 1) / parts;
            w_.units.push_back(unit);
          }
        }
      }
    }
    place_partials(partial_floats);
  }

  void place_partials(int64_t floats) {
    const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
    if (w_.partials.size() < bytes) w_.partials = AlignedBuffer(2 * bytes);
    if (w_.unfinished_size < w_.splits.size()) {
      w_.unfinished_size = 2 * w_.splits.size();
      w_.unfinished = std::make_unique<std::atomic<int32_t>[]>(w_.unfinished_size);
    }
    float* next = w_.partials.as<float>();
    for (size_t i = 0; i < w_.splits.size(); ++i) {
      w_.splits[i].partials = next;
      next += w_.splits[i].chunks * group_ * (2 + padded_);
      w_.unfinished[i].store(w_.splits[i].units, std::memory_order_relaxed);
    }
  }

  std::byte* head_page(const PagedRows& s, int32_t head, int64_t position) const {
    const int64_t page = s.pages[static_cast<size_t>(position / page_.tokens)];
    return a_.base + page * a_.page_stride + head_bytes() * head;
  }
  int chunk_pages() const { return kChunkTokens / page_.tokens; }
  int64_t head_bytes() const { return head_page_bytes(a_.type, page_); }

  void store(const PagedRows& s, int64_t row, int32_t head) const {
    const int64_t position = s.first_position + row;
    const float* k = k_.row<float>(s.first_row + row) + int64_t{head} * a_.head_size;
    const float* v = v_.row<float>(s.first_row + row) + int64_t{head} * a_.head_size;
    float rotated[2][kMaxQuantizedHead];
    if (quantized_) {
      std::copy_n(k, a_.head_size, rotated[0]);
      std::copy_n(v, a_.head_size, rotated[1]);
      if (key_bias_ != nullptr) key_bias_->remove(position, head, rotated[0]);
      if (!a_.key_scales.empty())
        for (int d = 0; d < a_.head_size; ++d) rotated[0][d] *= key_scales(head)[d];
      for (float* x : rotated) kernels_.rotate(x, a_.head_size);
      k = rotated[0];
      v = rotated[1];
    }
    kernels_.store(k, v, page_, static_cast<int>(position % page_.tokens),
                   head_page(s, head, position));
  }

  // Before the units run, where several of them read what one row stores.
  void store_all() {
    const auto store_heads = [&](int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head)
        for (const PagedRows& s : a_.sequences)
          for (int64_t row = 0; row < s.rows; ++row) store(s, row, static_cast<int32_t>(head));
    };
    if (stored_rows_ <= kSerialStore) return store_heads(0, a_.kv_heads);
    context_.pool->parallel_for(a_.kv_heads, 1, store_heads);
  }

  // What a thread needs at most: running sums of a unit, one tile's partial sums, and for each
  // query of a unit four pointers and four positions; of quantised types the unit's queries as they
  // are multiplied and a chunk of its pages.
  struct Scratch {
    const float** q;
    const float** q_added;
    const float** sink_q;
    float** y;
    int32_t* begin;
    int32_t* end;
    int32_t* sink_begin;
    int32_t* sink_end;
    float* running;
    float* part;
    float* rotated;  // [queries][Dh]
    float* turned;   // [queries][Dh]
    float* chunk;    // head pages of f32
  };
  Scratch scratch(size_t thread) {
    const int64_t queries = std::max<int64_t>(kUnitQueries, group_);
    const int64_t sums = queries * (2 + padded_), part = kQueryTile * (2 + padded_);
    const int64_t of_queries = quantized_ ? queries * a_.head_size : 0;
    const int64_t chunk = quantized_ ? chunk_pages() * head_page_elements(page_) : 0;
    const int64_t floats = 4 * queries + sums + part + 2 * of_queries + chunk;
    const auto bytes =
        static_cast<size_t>(queries * 4 * int64_t{sizeof(void*)} + floats * int64_t{sizeof(float)});
    AlignedBuffer& buffer = w_.scratch[thread];
    if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
    Scratch s{};
    s.q = buffer.as<const float*>();
    s.q_added = s.q + queries;
    s.sink_q = s.q_added + queries;
    s.y = const_cast<float**>(s.sink_q + queries);
    s.begin = reinterpret_cast<int32_t*>(s.y + queries);
    s.end = s.begin + queries;
    s.sink_begin = s.end + queries;
    s.sink_end = s.sink_begin + queries;
    s.running = reinterpret_cast<float*>(s.sink_end + queries);
    s.part = s.running + sums;
    s.rotated = s.part + part;
    s.turned = s.rotated + of_queries;
    s.chunk = s.turned + of_queries;
    return s;
  }

  const float* key_scales(int32_t head) const {
    return a_.key_scales.data() + int64_t{head} * a_.head_size;
  }

  // The unit's queries as the pages' keys need them.
  void rotate_queries(const Unit& unit, const Scratch& m, int queries) const {
    for (int i = 0; i < queries; ++i) {
      float* rotated = m.rotated + int64_t{i} * a_.head_size;
      std::copy_n(m.q[i], a_.head_size, rotated);
      if (!a_.key_scales.empty())
        for (int d = 0; d < a_.head_size; ++d) rotated[d] /= key_scales(unit.kv_head)[d];
      kernels_.rotate(rotated, a_.head_size);
      m.q[i] = rotated;
    }
  }

  // A chunk of quantised pages as f32 ones, as far as the unit's queries see them (its sinks, or
  // what is in its windows); and the queries turned back by its position where keys have a bias.
  KvHead unpack(const Unit& unit, const KvHead& kv, int32_t chunk, const Scratch& m, int queries,
                bool sinks) const {
    static constexpr int32_t kPages[kChunkTokens / kPageSizes[0]] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int64_t elements = head_page_elements(page_);
    const int32_t* const begins = sinks ? m.sink_begin : m.begin;
    const int32_t* const ends = sinks ? m.sink_end : m.end;
    const int32_t begin = *std::min_element(begins, begins + queries);
    const int32_t end = *std::max_element(ends, ends + queries);
    const int32_t first_page = chunk * chunk_pages();
    for (int page = 0; page < chunk_pages(); ++page) {
      const int32_t first = (first_page + page) * page_.tokens;
      if (first >= end || first + page_.tokens <= begin) continue;
      const auto* bytes =
          static_cast<const std::byte*>(kv.base) + kv.pages[first_page + page] * kv.page_stride;
      kernels_.unpack(bytes, page_, m.chunk + page * elements);
    }
    KvHead unpacked{m.chunk, kPages, elements * int64_t{sizeof(float)}, page_, first_page};
    if (key_bias_ == nullptr) return unpacked;
    unpacked.added_keys = key_bias_->panel(unit.kv_head, chunk);
    for (int i = 0; i < queries; ++i) {
      float* turned = m.turned + int64_t{i} * a_.head_size;
      key_bias_->turn_back(int64_t{chunk} * kChunkTokens, query_row(unit, i), turned);
      m.q_added[i] = turned;
    }
    return unpacked;
  }

  // The unit's i-th query as it came.
  const float* query_row(const Unit& unit, int i) const {
    const PagedRows& s = a_.sequences[static_cast<size_t>(unit.sequence)];
    const int64_t head = int64_t{unit.kv_head} * group_ + i % group_;
    return q_.row<float>(s.first_row + unit.first_row + i / group_) + head * a_.head_size;
  }

  void finish(const AttentionSums& sums, int queries, float* const* y) const {
    kernels_.finish(sums, queries, a_.head_size, y);
    if (!quantized_) return;
    for (int i = 0; i < queries; ++i) kernels_.rotate(y[i], a_.head_size);
  }

  void attend(const Unit& unit, size_t thread) {
    const PagedRows& s = a_.sequences[static_cast<size_t>(unit.sequence)];
    const int64_t end = s.first_position + unit.last_row;
    // A row on its own is stored by the unit that reads it: the one with the last chunk.
    if (!stored_before_ && (chunk_of(unit, unit.last_chunk - 1) + 1) * kChunkTokens >= end)
      store(s, 0, unit.kv_head);

    Scratch m = scratch(thread);
    const auto queries = static_cast<int>((unit.last_row - unit.first_row) * group_);
    for (int i = 0; i < queries; ++i) {
      const int64_t row = unit.first_row + i / group_;
      const int64_t head = int64_t{unit.kv_head} * group_ + i % group_;
      const int64_t position = s.first_position + row;
      m.q[i] = query_row(unit, i);
      m.y[i] = y_.row<float>(s.first_row + row) + head * a_.head_size;
      m.begin[i] = static_cast<int32_t>(first_seen(s, position));
      m.end[i] = static_cast<int32_t>(position + 1);
      m.sink_begin[i] = 0;
      m.sink_end[i] = m.begin[i] == 0 ? 0 : static_cast<int32_t>(sinks_of(s));
    }
    if (quantized_) rotate_queries(unit, m, queries);
    for (int i = 0; i < queries; ++i) {
      const int64_t row = s.first_row + unit.first_row + i / group_;
      const int64_t head = int64_t{unit.kv_head} * group_ + i % group_;
      m.sink_q[i] =
          a_.sink_q.data == nullptr ? m.q[i] : a_.sink_q.row<float>(row) + head * a_.head_size;
    }
    const KvHead kv{a_.base + head_bytes() * unit.kv_head, s.pages.data(), a_.page_stride, page_};
    const auto pages = static_cast<int64_t>(s.pages.size());
    // Of the c-th chunk that the unit sees.
    const auto keys_of = [&](int64_t c) {
      if (quantized_) return unpack(unit, kv, chunk_of(unit, c), m, queries, c < unit.sink_chunks);
      KvHead keys = kv;
      if (c + 1 < unit.last_chunk && (chunk_of(unit, c + 1) + 1) * chunk_pages() <= pages)
        keys.next_chunk = chunk_of(unit, c + 1);
      return keys;
    };
    const auto tile_of = [&](int64_t c, int first, int count) {
      const bool sinks = c < unit.sink_chunks;
      return AttentionQueries{(sinks ? m.sink_q : m.q) + first,
                              (sinks ? m.sink_begin : m.begin) + first,
                              (sinks ? m.sink_end : m.end) + first,
                              count,
                              a_.scale,
                              a_.soft_cap,
                              m.q_added + first};
    };

    if (unit.split >= 0) {
      const Split& split = w_.splits[static_cast<size_t>(unit.split)];
      for (int64_t c = unit.first_chunk; c < unit.last_chunk; ++c)
        chunk_(keys_of(c), tile_of(c, 0, queries), chunk_of(unit, c),
               partial(split, c, queries).sums);
      // Whoever finishes last merges, in the order of chunks; acq_rel shows it the others' sums.
      auto& left = w_.unfinished[static_cast<size_t>(unit.split)];
      if (left.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
      const Sums running = empty(m.running, queries);
      for (int64_t c = 0; c < split.chunks; ++c)
        kernels_.merge(running.sums, partial(split, c, queries).sums, queries, a_.head_size);
      finish(running.sums, queries, m.y);
      return;
    }

    const Sums running = empty(m.running, queries);
    const Sums part(m.part, kQueryTile, padded_);
    const int tiles = (queries + kQueryTile - 1) / kQueryTile;
    const int tile = (queries + tiles - 1) / tiles;  // all about the same size
    for (int64_t c = unit.first_chunk; c < unit.last_chunk; ++c) {
      const int32_t chunk = chunk_of(unit, c);
      KvHead keys = keys_of(c);
      for (int first = 0; first < queries; first += tile) {
        const int count = std::min(tile, queries - first);
        const AttentionSums into{running.sums.m + first, running.sums.l + first,
                                 running.sums.o + first * padded_};
        chunk_(keys, tile_of(c, first, count), chunk, part.sums);
        kernels_.merge(into, part.sums, count, a_.head_size);
        keys.next_chunk = -1;  // fetched once
      }
    }
    finish(running.sums, queries, m.y);
  }

  Sums partial(const Split& split, int64_t chunk, int64_t queries) const {
    return Sums(split.partials + chunk * queries * (2 + padded_), queries, padded_);
  }
  Sums empty(float* memory, int64_t queries) const {
    const Sums s(memory, queries, padded_);
    std::fill_n(s.sums.m, queries, -std::numeric_limits<float>::infinity());
    std::fill_n(s.sums.l, queries * (1 + padded_), 0.0f);  // l and, behind it, o
    return s;
  }

  const PagedAttention& a_;
  const Tensor &q_, &k_, &v_, &y_;
  PagedAttentionWorkspace& w_;
  const OpContext& context_;
  const AttentionKernels& kernels_;
  const PageShape page_;
  const bool quantized_;
  void (*const chunk_)(const KvHead&, const AttentionQueries&, int32_t,
                       const AttentionSums&) noexcept;
  const KeyBias* const key_bias_;
  const int group_;  // query heads of a KV head
  const int64_t padded_;
  int64_t work_ = 0;  // query-chunk pairs
  int64_t stored_rows_ = 0;
  bool stored_before_ = false;
};

void check(const PagedAttention& a, const char* operand, const Tensor& t, int64_t rows, int heads) {
  if (t.dtype != DType::f32 || t.rows != rows || t.columns != int64_t{heads} * a.head_size)
    fail(ErrorCode::invalid_argument,
         "paged_attention: {} is [{}, {}], wanted [{}, {} heads of {}] (f32)", operand, t.rows,
         t.columns, rows, heads, a.head_size);
}

}  // namespace

void paged_attention(const PagedAttention& a, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& y, PagedAttentionWorkspace& workspace,
                     const OpContext& context) {
  STRATA_ASSERT(a.kv_heads > 0 && a.heads % a.kv_heads == 0 && a.head_size > 0);
  STRATA_ASSERT(is_page_size(a.page_tokens));
  if (is_quantized(a.type) && a.head_size > kMaxQuantizedHead)
    fail(ErrorCode::invalid_argument, "paged_attention: heads of {} in {}, which takes up to {}",
         a.head_size, kv_type_name(a.type), kMaxQuantizedHead);
  check(a, "q", q, q.rows, a.heads);
  check(a, "k", k, q.rows, a.kv_heads);
  check(a, "v", v, q.rows, a.kv_heads);
  check(a, "y", y, q.rows, a.heads);
  if (a.sink_q.data != nullptr) check(a, "sink_q", a.sink_q, q.rows, a.heads);
  if (a.sink_q.data != nullptr && is_quantized(a.type))
    fail(ErrorCode::unsupported, "paged_attention: sinks that move, in {}", kv_type_name(a.type));
  for (const PagedRows& s : a.sequences) {
    const int64_t end = s.first_position + s.rows;
    STRATA_ASSERT(s.rows > 0 && s.first_row >= 0 && s.first_row + s.rows <= q.rows &&
                  s.first_position >= 0);
    if (end > static_cast<int64_t>(s.pages.size()) * a.page_tokens || end > (int64_t{1} << 31) - 64)
      fail(ErrorCode::invalid_argument,
           "paged_attention: positions up to {}, the page table holds {}", end,
           static_cast<int64_t>(s.pages.size()) * a.page_tokens);
  }
  Call(a, q, k, v, y, workspace, context).run();
}

}  // namespace strata
