#include "ops/gemm.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "kernels/gemm.h"

namespace strata {
namespace {

// Rows of A that stay in half a second-level cache of 512 KB at kGemmDepth; a multiple of the tile.
constexpr int64_t kRowBlock = 132;
// Packed B of one round: it stays in a third-level cache beside the rows of A and C.
constexpr int64_t kRoundFloats = int64_t{2} << 20;
// Products of fewer multiply-adds are done before another thread has woken up.
constexpr int64_t kSerialWork = 64 << 10;

enum class Form { nn, nt, tn };

constexpr const char* form_name(Form form) {
  return form == Form::nn ? "gemm_nn" : form == Form::nt ? "gemm_nt" : "gemm_tn";
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t unit) { return ceil_div(a, unit) * unit; }

struct Product {
  Form form;
  const Tensor& a;
  const Tensor& b;
  const Tensor& c;
  const GemmOptions& options;
  int64_t M, N, K;
};

KvType element_type(DType type) {
  return type == DType::f16 ? KvType::f16 : type == DType::bf16 ? KvType::bf16 : KvType::f32;
}

Product check(Form form, const Tensor& a, const Tensor& b, const Tensor& c,
              const GemmOptions& options) {
  const char* name = form_name(form);
  const bool half = b.dtype == DType::f16 || b.dtype == DType::bf16;
  if (a.dtype != DType::f32) fail(ErrorCode::invalid_argument, "{}: a is not f32", name);
  if (c.dtype != DType::f32) fail(ErrorCode::invalid_argument, "{}: c is not f32", name);
  if (b.dtype != DType::f32 && !half) fail(ErrorCode::invalid_argument, "{}: b is not f32", name);
  if (half && form == Form::tn)
    fail(ErrorCode::invalid_argument, "{}: b is not f32 (only gemm_nn and gemm_nt take f16, bf16)",
         name);
  const int64_t M = form == Form::tn ? a.columns : a.rows;
  const int64_t K = form == Form::tn ? a.rows : a.columns;
  const int64_t N = form == Form::nt ? b.rows : b.columns;
  const int64_t b_depth = form == Form::nt ? b.columns : b.rows;
  if (b_depth != K)
    fail(ErrorCode::invalid_argument,
         "{}: b is [{}, {}], a is [{}, {}]: they share no dimension of {}", name, b.rows, b.columns,
         a.rows, a.columns, K);
  if (c.rows != M || c.columns != N)
    fail(ErrorCode::invalid_argument, "{}: c is [{}, {}], the product is [{}, {}]", name, c.rows,
         c.columns, M, N);
  if (options.accumulate && options.bias != nullptr)
    fail(ErrorCode::invalid_argument, "{}: bias and accumulate exclude each other", name);
  return {form, a, b, c, options, M, N, K};
}

void set_to_start(const Product& p) {
  if (p.options.accumulate) return;
  for (int64_t m = 0; m < p.M; ++m) {
    float* c = p.c.row<float>(m);
    if (p.options.bias != nullptr)
      std::copy_n(p.options.bias, p.N, c);
    else
      std::fill_n(c, p.N, 0.0f);
  }
}

// A round: columns [first_column, + columns) of C and depth [first_k, + depth), whose part of B is
// packed before any of it is multiplied.
struct Round {
  int64_t first_column, columns;
  int64_t first_k, depth;
};

// Packs panels [begin, end) of the round; a panel holds the round's whole depth.
void pack_panels(const Product& p, const GemmKernels& kernels, const Round& round, float* packed,
                 int64_t begin, int64_t end) {
  const int64_t first = begin * kernels.panel;
  const int64_t columns = std::min(round.columns, end * kernels.panel) - first;
  const int64_t panel_floats = gemm_words(kernels, round.depth) * kernels.panel;
  const int64_t n = round.first_column + first;
  float* out = packed + begin * panel_floats;
  const KvType type = element_type(p.b.dtype);
  const int64_t at =
      p.form == Form::nt ? n * p.b.stride + round.first_k : round.first_k * p.b.stride + n;
  const auto* source = static_cast<const char*>(p.b.data) + at * int64_t{kv_type_bits(type) / 8};
  const auto pack =
      (p.form == Form::nt ? kernels.pack_b_transposed : kernels.pack_b)[static_cast<int>(type)];
  pack(source, p.b.stride, round.depth, columns, out, panel_floats);
}

bool packs_a(Form form, const GemmKernels& kernels) {
  return form == Form::tn || kernels.pack_a_rows != nullptr;
}

// Rows [row, row + rows) of C, panels [first_panel, last_panel) of the round. packed_a has room for
// kRowBlock rows of kGemmDepth.
void multiply_block(const Product& p, const GemmKernels& kernels, const Round& round,
                    const float* packed, int64_t row, int64_t rows, int64_t first_panel,
                    int64_t last_panel, float* packed_a) {
  const int64_t column = first_panel * kernels.panel;
  GemmTile tile;
  tile.b_panel = gemm_words(kernels, round.depth) * kernels.panel;
  tile.c = p.c.row<float>(row) + round.first_column + column;
  tile.ldc = p.c.stride;
  tile.rows = rows;
  tile.columns = std::min(round.columns, last_panel * kernels.panel) - column;
  for (int64_t k = 0; k < round.depth; k += kGemmDepth) {
    const int64_t depth = std::min(kGemmDepth, round.depth - k);
    tile.depth = gemm_words(kernels, depth);
    if (packs_a(p.form, kernels)) {
      const bool columns = p.form == Form::tn;
      const float* const a = columns ? p.a.row<float>(round.first_k + k) + row
                                     : p.a.row<float>(row) + round.first_k + k;
      (columns ? kernels.pack_a : kernels.pack_a_rows)(a, p.a.stride, depth, rows, packed_a);
      tile.a = packed_a;
      tile.a_packed = true;
    } else {
      tile.a = p.a.row<float>(row) + round.first_k + k;
      tile.lda = p.a.stride;
    }
    tile.b = packed + first_panel * tile.b_panel + gemm_words(kernels, k) * kernels.panel;
    const bool first = round.first_k + k == 0;
    tile.start = !first || p.options.accumulate ? GemmStart::c
                 : p.options.bias != nullptr    ? GemmStart::bias
                                                : GemmStart::zero;
    tile.bias =
        tile.start == GemmStart::bias ? p.options.bias + round.first_column + column : nullptr;
    kernels.multiply(tile);
  }
}

// A tn product is cut into parts that a thread makes alone, packing both operands for itself, since
// weight gradients are small beside their operands: what one core packs and another reads, again
// for each block of the depth, costs more than packing it twice where they share no cache.
struct Parts {
  int64_t rows, columns;  // of a part
  int64_t row_parts, column_parts;
};
// Result and packed B of a part: in the second or third level while its depth passes by.
constexpr int64_t kPartRows = 1536;
constexpr int64_t kPartColumns = 1024;
// Packing a number takes about as long as so many multiply-adds.
constexpr int64_t kPackCost = 32;

// The cut with the least time, by what a part costs and how many of them one thread gets.
Parts cut_into_parts(const Product& p, int64_t panel, int threads) {
  const int64_t least_rows = ceil_div(p.M, kPartRows), least_columns = ceil_div(p.N, kPartColumns);
  Parts best{};
  int64_t least = INT64_MAX;
  for (int64_t r = least_rows; r <= least_rows + threads; ++r) {
    const int64_t rows = round_up(ceil_div(p.M, r), kGemmRows);
    for (int64_t c = least_columns; c <= least_columns + threads; ++c) {
      const int64_t columns = round_up(ceil_div(p.N, c), panel);
      const Parts parts{rows, columns, ceil_div(p.M, rows), ceil_div(p.N, columns)};
      const int64_t each = rows * columns + kPackCost * (rows + columns);
      const int64_t time = ceil_div(parts.row_parts * parts.column_parts, int64_t{threads}) * each;
      if (time < least) {
        least = time;
        best = parts;
      }
    }
  }
  return best;
}

// Rows [row, + rows) and columns [column, + columns) of C over the whole depth. packed has room for
// the columns and for kRowBlock rows of kGemmDepth.
void multiply_part(const Product& p, const GemmKernels& kernels, int64_t row, int64_t rows,
                   int64_t column, int64_t columns, float* packed) {
  const int64_t panels = ceil_div(columns, kernels.panel);
  float* const packed_a = packed + panels * kernels.panel * kGemmDepth;
  for (int64_t k = 0; k < p.K; k += kGemmDepth) {
    const Round round{column, columns, k, std::min(kGemmDepth, p.K - k)};
    pack_panels(p, kernels, round, packed, 0, panels);
    for (int64_t m = 0; m < rows; m += kRowBlock)
      multiply_block(p, kernels, round, packed, row + m, std::min(kRowBlock, rows - m), 0, panels,
                     packed_a);
  }
}

void gemm_in_parts(const Product& p, const GemmKernels& kernels, Workspace& workspace,
                   ThreadPool& pool, int threads) {
  const Parts parts = cut_into_parts(p, kernels.panel, threads);
  const int64_t floats = (parts.columns + kRowBlock) * kGemmDepth;
  float* const packed = workspace.floats(threads * floats);
  const int64_t count = parts.row_parts * parts.column_parts;
  std::atomic<int64_t> next = 0;
  const auto work = [&](int thread) {
    for (int64_t part; (part = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      const int64_t row = part / parts.column_parts * parts.rows;
      const int64_t column = part % parts.column_parts * parts.columns;
      multiply_part(p, kernels, row, std::min(parts.rows, p.M - row), column,
                    std::min(parts.columns, p.N - column), packed + thread * floats);
    }
  };
  if (threads == 1)
    work(0);
  else
    pool.run(work);
}

// How C is cut into blocks of a round: enough of them that all threads end at about the same time.
struct Cut {
  int64_t rows;    // of a block
  int64_t panels;  // of a block
  int64_t row_blocks, column_blocks;
};
Cut cut(int64_t M, int64_t panels, int threads) {
  // Equal row blocks, as many as a multiple of the threads where there are several.
  int64_t row_blocks = ceil_div(M, kRowBlock);
  if (row_blocks > 1) row_blocks = round_up(row_blocks, threads);
  Cut c{};
  c.rows = std::min(kRowBlock, round_up(ceil_div(M, row_blocks), kGemmRows));
  c.row_blocks = ceil_div(M, c.rows);
  const int64_t wanted =
      c.row_blocks >= 2 * threads ? 1 : ceil_div(int64_t{4} * threads, c.row_blocks);
  c.panels = ceil_div(panels, std::min(panels, wanted));
  c.column_blocks = ceil_div(panels, c.panels);
  return c;
}

void gemm(const Product& p, Workspace& workspace, const OpContext& context) {
  if (p.M == 0 || p.N == 0) return;
  if (p.K == 0) return set_to_start(p);
  const KernelTable& table = *context.kernels;
  const bool bf16 = p.options.bf16 && table.gemm_bf16 != nullptr;
  const GemmKernels& kernels = bf16 ? *table.gemm_bf16 : *table.gemm;
  ThreadPool& pool = *context.pool;
  const bool serial = p.M * p.N * p.K < kSerialWork;
  const int threads = serial ? 1 : pool.threads();
  if (p.form == Form::tn) return gemm_in_parts(p, kernels, workspace, pool, threads);

  // Rounds take all columns or as many as a depth block allows, then as much depth as fits.
  const int64_t most_columns =
      std::min(round_up(p.N, kernels.panel),
               std::max<int64_t>(kRoundFloats / kGemmDepth / kernels.panel, 1) * kernels.panel);
  const int64_t most_depth =
      std::min(p.K, std::max<int64_t>(kRoundFloats / most_columns / kGemmDepth, 1) * kGemmDepth);
  const int64_t a_floats = packs_a(p.form, kernels) ? kRowBlock * kGemmDepth : 0;
  float* packed = workspace.floats(most_columns * most_depth + threads * a_floats);
  float* packed_a = packed + most_columns * most_depth;

  for (int64_t n = 0; n < p.N; n += most_columns) {
    for (int64_t k = 0; k < p.K; k += most_depth) {
      const Round round{n, std::min(most_columns, p.N - n), k, std::min(most_depth, p.K - k)};
      const int64_t panels = ceil_div(round.columns, kernels.panel);
      const Cut blocks = cut(p.M, panels, threads);
      const auto multiply = [&](int64_t block, int thread) {
        const int64_t row = block / blocks.column_blocks * blocks.rows;
        const int64_t first_panel = block % blocks.column_blocks * blocks.panels;
        multiply_block(p, kernels, round, packed, row, std::min(blocks.rows, p.M - row),
                       first_panel, std::min(panels, first_panel + blocks.panels),
                       packed_a + thread * a_floats);
      };
      const int64_t count = blocks.row_blocks * blocks.column_blocks;
      if (serial) {
        pack_panels(p, kernels, round, packed, 0, panels);
        for (int64_t block = 0; block < count; ++block) multiply(block, 0);
        continue;
      }
      pool.parallel_for(panels, 1, [&](int64_t begin, int64_t end) {
        pack_panels(p, kernels, round, packed, begin, end);
      });
      std::atomic<int64_t> next = 0;
      pool.run([&](int thread) {
        for (int64_t block; (block = next.fetch_add(1, std::memory_order_relaxed)) < count;)
          multiply(block, thread);
      });
    }
  }
}

}  // namespace

void gemm_nn(const Tensor& a, const Tensor& b, const Tensor& c, const GemmOptions& options,
             Workspace& workspace, const OpContext& context) {
  gemm(check(Form::nn, a, b, c, options), workspace, context);
}

void gemm_nt(const Tensor& a, const Tensor& b, const Tensor& c, const GemmOptions& options,
             Workspace& workspace, const OpContext& context) {
  gemm(check(Form::nt, a, b, c, options), workspace, context);
}

void gemm_tn(const Tensor& a, const Tensor& b, const Tensor& c, const GemmOptions& options,
             Workspace& workspace, const OpContext& context) {
  gemm(check(Form::tn, a, b, c, options), workspace, context);
}

}  // namespace strata
