#include "bench/attention_compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/error.h"
#include "bench/peak_memory.h"
#include "bench/statistics.h"
#include "bench/timing.h"
#include "ops/train_attention.h"
#include "report/line_chart.h"
#include "tensor/arena.h"

namespace strata {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kFloat = sizeof(float);

// Inputs and results of a forward and a backward pass, [T, H Dh] and [T, Hk Dh].
struct Operands {
  Tensor q, k, v, d_y, y, d_q, d_k, d_v;
};

void fill(const Tensor& t, uint64_t seed) {
  uint64_t state = seed;
  for (int64_t r = 0; r < t.rows; ++r)
    for (int64_t c = 0; c < t.columns; ++c) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      t.row<float>(r)[c] = static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1;
    }
}

StandardAttention::Size size_of(const AttentionComparison& c, int64_t tokens) {
  return {c.heads, c.kv_heads, c.head_size, tokens};
}

int64_t operand_bytes(const AttentionComparison& c, int64_t tokens) {
  return 4 * tokens * (int64_t{c.heads} + c.kv_heads) * c.head_size * kFloat;
}

// One length: its operands, and both methods over them.
class Length {
 public:
  Length(const AttentionComparison& c, int64_t tokens, const OpContext& context)
      : c_(c), tokens_(tokens), context_(context) {
    const int64_t wide = int64_t{c.heads} * c.head_size, narrow = int64_t{c.kv_heads} * c.head_size;
    for (Tensor* t : {&o_.q, &o_.d_y, &o_.y, &o_.d_q}) *t = arena_.tensor(DType::f32, tokens, wide);
    for (Tensor* t : {&o_.k, &o_.v, &o_.d_k, &o_.d_v})
      *t = arena_.tensor(DType::f32, tokens, narrow);
    uint64_t seed = 1;  // and so every page of them is there before memory is measured
    for (const Tensor& t : {o_.q, o_.k, o_.v, o_.d_y, o_.y, o_.d_q, o_.d_k, o_.d_v})
      fill(t, seed++);
  }

  AttentionRun flash(int repeats, const std::function<void()>& check) {
    AttentionRun run = new_run(AttentionMethod::flash);
    const PeakMemory peak;
    Workspace workspace;
    std::vector<float> saved(static_cast<size_t>(2 * c_.heads * tokens_));
    const AttentionSaved at{saved.data(), saved.data() + c_.heads * tokens_, tokens_};
    const std::vector<AttentionSequence> sequences = {{0, tokens_, 0, tokens_}};
    std::vector<int32_t> begin(static_cast<size_t>(tokens_)), end(begin.size());
    attention_ranges(sequences, AttentionMask::causal, 0, begin.data(), end.data());
    const AttentionVisibility visible{sequences, begin.data(), end.data()};
    const AttentionHeads heads{c_.heads, c_.kv_heads, c_.head_size, scale(), {}};
    time(
        run, repeats, check,
        [&] {
          train_attention_forward(o_.q, o_.k, o_.v, heads, visible, o_.y, at, workspace, context_);
        },
        [&] {
          train_attention_backward(o_.q, o_.k, o_.v, heads, visible, o_.y, at, o_.d_y,
                                   {o_.d_q, o_.d_k, o_.d_v}, workspace, context_);
        });
    run.peak_bytes = peak.bytes();
    return run;
  }

  // Over results of its own; with `flash` what they differ by.
  AttentionRun standard(int repeats, AttentionRun* flash, const std::function<void()>& check) {
    AttentionRun run = new_run(AttentionMethod::standard);
    const Results own = new_results(o_);
    const PeakMemory peak;
    {
      StandardAttention attention(size_of(c_, tokens_), context_);
      time(
          run, repeats, check, [&] { attention.forward(o_.q, o_.k, o_.v, scale(), own.y, check); },
          [&] {
            attention.backward(o_.q, o_.k, o_.v, scale(), o_.d_y, own.d_q, own.d_k, own.d_v, check);
          });
      run.peak_bytes = peak.bytes();
    }
    flash->difference = difference(own, o_);
    flash->compared_heads = c_.heads;
    return run;
  }

  // The heads of the first KV head alone, in parts of `queries`.
  void compare_first_heads(AttentionRun& flash, int64_t queries,
                           const std::function<void()>& check) {
    const int heads = c_.heads / c_.kv_heads;
    const auto first = [&](Tensor t, int count) {
      t.columns = int64_t{count} * c_.head_size;
      return t;
    };
    const Operands part = {first(o_.q, heads),   first(o_.k, 1),     first(o_.v, 1),
                           first(o_.d_y, heads), first(o_.y, heads), first(o_.d_q, heads),
                           first(o_.d_k, 1),     first(o_.d_v, 1)};
    const Results own = new_results(part);
    for (const Tensor& t : {own.d_k, own.d_v})
      for (int64_t r = 0; r < t.rows; ++r) std::fill_n(t.row<float>(r), t.columns, 0.0f);
    for (int64_t at = 0; at < tokens_; at += queries) {
      const int64_t count = std::min(queries, tokens_ - at);
      const auto rows = [](Tensor t, int64_t begin, int64_t end) {
        t.data = t.row<float>(begin);
        t.rows = end - begin;
        return t;
      };
      const auto mine = [&](const Tensor& t) { return rows(t, at, at + count); };
      const auto seen = [&](const Tensor& t) { return rows(t, 0, at + count); };
      StandardAttention attention({heads, 1, c_.head_size, count, at}, context_);
      attention.forward(mine(part.q), seen(part.k), seen(part.v), scale(), mine(own.y), check);
      attention.backward(mine(part.q), seen(part.k), seen(part.v), scale(), mine(part.d_y),
                         mine(own.d_q), seen(own.d_k), seen(own.d_v), check);
    }
    flash.difference = difference(own, part);
    flash.compared_heads = heads;
  }

 private:
  struct Results {
    Tensor y, d_q, d_k, d_v;
  };
  Results new_results(const Operands& like) {
    Results r;
    const std::pair<Tensor*, const Tensor*> pairs[] = {
        {&r.y, &like.y}, {&r.d_q, &like.d_q}, {&r.d_k, &like.d_k}, {&r.d_v, &like.d_v}};
    for (const auto& [made, wanted] : pairs) {
      *made = arena_.tensor(DType::f32, wanted->rows, wanted->columns);
      fill(*made, 1);
    }
    return r;
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(c_.head_size)); }

  AttentionRun new_run(AttentionMethod method) const {
    AttentionRun run;
    run.method = method;
    run.tokens = tokens_;
    run.operand_bytes = operand_bytes(c_, tokens_);
    run.difference = kNaN;
    return run;
  }

  template <typename Forward, typename Backward>
  static void time(AttentionRun& run, int repeats, const std::function<void()>& check,
                   Forward forward, Backward backward) {
    for (int r = -1; r < repeats; ++r) {  // the first warms up
      if (check) check();
      const double begin = now_seconds();
      forward();
      const double middle = now_seconds();
      if (check) check();
      backward();
      if (r < 0) continue;
      run.forward_seconds.push_back(middle - begin);
      run.backward_seconds.push_back(now_seconds() - middle);
    }
  }

  static double difference(const Results& a, const Operands& b) {
    double largest = 0;
    const std::pair<const Tensor*, const Tensor*> pairs[] = {
        {&a.y, &b.y}, {&a.d_q, &b.d_q}, {&a.d_k, &b.d_k}, {&a.d_v, &b.d_v}};
    for (const auto& [x, y] : pairs)
      for (int64_t r = 0; r < x->rows; ++r)
        for (int64_t c = 0; c < x->columns; ++c) {
          const double apart = std::abs(double{x->row<float>(r)[c]} - double{y->row<float>(r)[c]});
          largest = apart <= largest ? largest : apart;  // NaN stays
        }
    return largest;
  }

  const AttentionComparison& c_;
  int64_t tokens_;
  OpContext context_;
  Arena arena_;
  Operands o_;
};

// Operations of the two passes over what a causal mask lets through: 2 and 5 products.
double operations(const AttentionComparison& c, int64_t tokens, int products) {
  const auto T = static_cast<double>(tokens);
  return 2.0 * products * c.head_size * c.heads * T * (T + 1) / 2;
}

// Of one KV head's weights, how many rows fit into so many bytes; at most kManyBytes of them, as
// more would make nothing faster.
int64_t queries_at_once(const AttentionComparison& c, int64_t tokens, int64_t bytes) {
  constexpr int64_t kManyBytes = int64_t{256} << 20;
  const int64_t of_a_row =
      StandardAttention::bytes({c.heads / c.kv_heads, 1, c.head_size, 1, tokens - 1});
  return std::min({bytes, kManyBytes, tokens * of_a_row}) / of_a_row;
}

}  // namespace

const char* attention_method_name(AttentionMethod method) {
  return method == AttentionMethod::flash ? "flash" : "standard";
}

int64_t AttentionComparisonResult::largest_tokens(AttentionMethod method) const {
  const AttentionComparison& c = comparison;
  const auto need = [&](int64_t tokens) -> double {
    const auto operands = static_cast<double>(operand_bytes(c, tokens));
    if (method == AttentionMethod::standard)
      return operands + static_cast<double>(StandardAttention::bytes(size_of(c, tokens)));
    const AttentionRun* largest = nullptr;
    for (const AttentionRun& run : runs)
      if (run.method == method && run.fits && run.peak_bytes >= 0 &&
          (largest == nullptr || run.tokens > largest->tokens))
        largest = &run;
    if (largest == nullptr) return std::numeric_limits<double>::infinity();
    return operands + static_cast<double>(largest->peak_bytes) /
                          static_cast<double>(largest->tokens) * static_cast<double>(tokens);
  };
  // Its square times the heads stays within 64 bits.
  int64_t fits = 0, too_many = int64_t{1} << 25;
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (need(middle) <= static_cast<double>(c.memory_limit) ? fits : too_many) = middle;
  }
  return fits;
}

AttentionComparisonResult compare_attention(const AttentionComparison& c, const OpContext& context,
                                            int repeats,
                                            const std::function<void(const std::string&)>& say,
                                            const std::function<void()>& check) {
  if (c.heads < 1 || c.kv_heads < 1 || c.heads % c.kv_heads != 0)
    fail(ErrorCode::invalid_argument,
         "bench attention: {} heads over {} KV heads, wanted a multiple", c.heads, c.kv_heads);
  AttentionComparisonResult result;
  result.comparison = c;
  for (const int64_t tokens : c.lengths) {
    if (say) say(fmt::format("{} tokens", tokens));
    const int64_t operands = operand_bytes(c, tokens);
    AttentionRun flash, standard;
    flash.tokens = standard.tokens = tokens;
    flash.operand_bytes = standard.operand_bytes = operands;
    flash.difference = standard.difference = kNaN;
    standard.method = AttentionMethod::standard;
    flash.fits = operands <= c.memory_limit;
    // The results it is compared with lie beside it.
    const int64_t left = c.memory_limit - operands - operands / 2;
    standard.fits = StandardAttention::bytes(size_of(c, tokens)) <= left;
    if (flash.fits) {
      Length length(c, tokens, context);
      flash = length.flash(repeats, check);
      if (standard.fits)
        standard = length.standard(repeats, &flash, check);
      else if (const int64_t queries = queries_at_once(c, tokens, left); queries > 0)
        length.compare_first_heads(flash, queries, check);
    }
    result.runs.push_back(std::move(flash));
    result.runs.push_back(std::move(standard));
  }
  return result;
}

std::vector<Measurement> attention_measurements(const AttentionComparisonResult& result) {
  const AttentionComparison& c = result.comparison;
  std::vector<Measurement> all;
  const auto add = [&](const AttentionRun& run, const char* what, int products,
                       const std::vector<double>& seconds) {
    const double count = operations(c, run.tokens, products);
    Measurement m;
    m.what = what;
    m.params = {{"method", attention_method_name(run.method)},
                {"heads", c.heads},
                {"kv_heads", c.kv_heads},
                {"head_size", c.head_size},
                {"tokens", run.tokens}};
    m.params["seconds"] = summarize(seconds).median;
    if (run.peak_bytes >= 0) m.params["peak_bytes"] = run.peak_bytes;
    m.params["operand_bytes"] = run.operand_bytes;
    m.params["memory_limit"] = c.memory_limit;
    m.params["largest_tokens"] = result.largest_tokens(run.method);
    if (std::isfinite(run.difference)) {
      m.params["max_difference"] = run.difference;
      m.params["compared_heads"] = run.compared_heads;
    }
    m.unit = "GFLOP/s";
    for (const double s : seconds) m.values.push_back(1e-9 * count / s);
    m.work.add_product(TensorType::f32, count);
    m.units = 1e-9 * count;
    all.push_back(std::move(m));
  };
  for (const AttentionRun& run : result.runs) {
    if (!run.fits) continue;
    add(run, "attention_forward", 2, run.forward_seconds);
    add(run, "attention_backward", 5, run.backward_seconds);
  }
  return all;
}

void write_attention_charts(const AttentionComparisonResult& result,
                            const std::filesystem::path& folder) {
  const AttentionComparison& c = result.comparison;
  LineChart memory, speed;
  const std::string shape =
      fmt::format("{} heads of {}, causal, f32, forward and backward", c.heads, c.head_size);
  memory.title = "Memory of attention, without its operands";
  speed.title = "Flash against standard attention";
  memory.subtitle = speed.subtitle = shape;
  memory.x_label = speed.x_label = "tokens";
  memory.y_label = "MB";
  speed.y_label = "times as fast";
  memory.log_x = speed.log_x = memory.log_y = true;
  speed.y_from_zero = true;
  memory.lines = {{"standard", {}, {}}, {"flash", {}, {}}};
  speed.lines = {{"forward", {}, {}}, {"backward", {}, {}}};
  for (size_t i = 0; i + 1 < result.runs.size(); i += 2) {
    const AttentionRun &flash = result.runs[i], &standard = result.runs[i + 1];
    const auto at = static_cast<double>(flash.tokens);
    const auto megabytes = [](const AttentionRun& run) {
      return static_cast<double>(run.peak_bytes) / 1e6;
    };
    if (standard.fits && standard.peak_bytes >= 0) memory.lines[0].add(at, megabytes(standard));
    if (flash.fits && flash.peak_bytes >= 0) memory.lines[1].add(at, megabytes(flash));
    if (!flash.fits || !standard.fits) continue;
    speed.lines[0].add(
        at, summarize(standard.forward_seconds).median / summarize(flash.forward_seconds).median);
    speed.lines[1].add(
        at, summarize(standard.backward_seconds).median / summarize(flash.backward_seconds).median);
  }
  write_line_chart(memory, folder / "memory_profile.png");
  write_line_chart(speed, folder / "speedup_chart.png");
}

}  // namespace strata
