#include "bench/kv_run.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/process.h"
#include "bench/engine_run.h"
#include "bench/statistics.h"
#include "bench/timing.h"
#include "bench/work.h"
#include "engine/serve_exec.h"
#include "model/transformer.h"

namespace strata {
namespace {

constexpr int64_t kStepRows = 512;
constexpr int64_t kPromptOfWarmUp = kStepRows;
constexpr int64_t kMostRepeatedNaive = 2048;

// An executor whose pool holds one sequence of so many tokens, and the sequence in it.
class Runner {
 public:
  Runner(const Model& model, const KvRunOptions& options, const KvPolicy& policy, int64_t tokens)
      : model_(model),
        options_(options),
        exec_(model, exec_options(model, options, policy, tokens)),
        tokens_(random_prompt(model.config.vocabulary_size, tokens, 1)) {
    if (exec_.context_length() < tokens)
      fail(ErrorCode::invalid_argument,
           "bench kv: {} tokens of context are needed, {} holds {} here; measure fewer", tokens,
           model.path.string(), exec_.context_length());
  }

  // Reads tokens until the sequence holds `length`; returns the logits of the last.
  const float* read_to(int64_t length) {
    Tensor logits;
    while (done_ < length) {
      const int64_t rows = std::min(kStepRows, length - done_);
      logits = step(rows);
    }
    return logits.row<float>(0);
  }
  void restart() {
    if (cache_ >= 0) exec_.release(cache_);
    cache_ = exec_.create_cache();
    done_ = 0;
  }
  // The next token, instead of a random one.
  void set_next(TokenId token) { tokens_[static_cast<size_t>(done_)] = token; }
  TokenId token(int64_t i) const { return tokens_[static_cast<size_t>(i)]; }
  int64_t done() const { return done_; }

  int64_t held_bytes() const {
    const KvPool& kv = exec_.kv();
    int64_t bytes = 0;
    for (size_t g = 0; g < kv.shape().groups.size(); ++g) {
      const auto table = kv.page_table(cache_, g);
      const auto held = std::count_if(table.begin(), table.end(), [](int32_t p) { return p >= 0; });
      bytes += held * kv.shape().page_bytes(g);
    }
    return bytes;
  }

 private:
  static ServeExecOptions exec_options(const Model& model, const KvRunOptions& options,
                                       const KvPolicy& policy, int64_t tokens) {
    ServeExecOptions exec;
    exec.threads = options.threads;
    exec.kv_type = options.kv_type;
    exec.page_tokens = options.page_tokens;
    exec.kv_policy = policy;
    exec.activations = options.activations;
    exec.context = tokens;
    exec.max_sequences = 1;
    exec.step_rows = kStepRows;
    const KvShape shape = kv_shape(model, options.kv_type, policy, options.page_tokens);
    for (size_t g = 0; g < shape.groups.size(); ++g)
      exec.kv_memory +=
          static_cast<uint64_t>(shape.most_pages(g, tokens, kStepRows) * shape.page_bytes(g));
    return exec;
  }

  Tensor step(int64_t rows) {
    if (options_.check) options_.check();
    positions_.resize(static_cast<size_t>(rows));
    std::iota(positions_.begin(), positions_.end(), static_cast<int32_t>(done_));
    const SequenceRows part{0, static_cast<int32_t>(rows), static_cast<int32_t>(done_), cache_};
    const Batch batch{{tokens_.data() + done_, static_cast<size_t>(rows)}, positions_, {&part, 1}};
    const Tensor hidden = forward_hidden(exec_, model_.transformer, batch);
    done_ += rows;
    const int32_t last = part.rows - 1;
    return forward_logits(exec_, model_.transformer, hidden, {&last, 1});
  }

  const Model& model_;
  const KvRunOptions& options_;
  ServeExec exec_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_;
  int32_t cache_ = -1;
  int64_t done_ = 0;
};

// 2 * layers * Hk * Dh * bytes for each token kept; with their scales for types that have them.
int64_t formula_bytes(const Model& model, KvType type, const KvPolicy& policy, int64_t length) {
  const KvShape shape = kv_shape(model, type, policy);
  const int64_t token =
      is_quantized(type) ? shape.layer_page_bytes() / shape.page_tokens
                         : int64_t{2} * shape.kv_heads * shape.head_size * kv_type_bits(type) / 8;
  int64_t bytes = 0;
  for (const KvShape::Group& g : shape.groups)
    bytes += token * g.layers * (g.window > 0 ? std::min(length, g.window + g.sinks) : length);
  return bytes;
}

double timed(const std::function<void()>& work) {
  const double begin = now_seconds();
  work();
  return now_seconds() - begin;
}

}  // namespace

KvEquality compare_with_recomputing(const Model& model, const KvRunOptions& options, int64_t prompt,
                                    int64_t tokens) {
  const auto vocabulary = static_cast<size_t>(model.config.vocabulary_size);
  Runner cached(model, options, {}, prompt + tokens), naive(model, options, {}, prompt + tokens);
  cached.restart();
  KvEquality out;
  out.tokens = tokens;
  for (int64_t i = 0; i < tokens; ++i) {
    const float *by_cache = nullptr, *by_all = nullptr;
    out.cached_seconds += timed([&] { by_cache = cached.read_to(prompt + i); });
    out.naive_seconds += timed([&] {
      naive.restart();
      by_all = naive.read_to(prompt + i);
    });
    const auto best = [&](const float* logits) {
      return static_cast<TokenId>(std::max_element(logits, logits + vocabulary) - logits);
    };
    out.equal_tokens += best(by_cache) == best(by_all);
    out.equal_logits += std::memcmp(by_cache, by_all, vocabulary * sizeof(float)) == 0;
    // Both go on with their own token: one that differs shows in all that follow.
    cached.set_next(best(by_cache));
    naive.set_next(best(by_all));
  }
  return out;
}

std::vector<KvPoint> measure_cached(const Model& model, const KvRunOptions& options,
                                    const KvPolicy& policy, const std::vector<int64_t>& lengths) {
  if (lengths.empty()) return {};
  Runner run(model, options, policy, lengths.back() + options.repeats);
  // Activations find their places, and the first pages are touched: they count as the sequence's.
  run.restart();
  run.read_to(std::min(kPromptOfWarmUp, lengths.back()));
  const int64_t before = resident_bytes() - run.held_bytes();
  run.restart();
  std::vector<KvPoint> points;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t length = lengths[i];
    if (length > run.done() + 1) run.read_to(length - 1);
    const int64_t room = i + 1 < lengths.size() ? lengths[i + 1] - length : options.repeats;
    KvPoint point;
    point.length = length;
    for (int r = 0; r < std::min<int64_t>(options.repeats, room); ++r) {
      point.seconds.push_back(timed([&] { run.read_to(run.done() + 1); }));
      if (r > 0) continue;
      point.held_bytes = run.held_bytes();
      point.resident_bytes = std::max<int64_t>(0, resident_bytes() - before);
    }
    point.formula_bytes = formula_bytes(model, options.kv_type, policy, length);
    points.push_back(std::move(point));
  }
  return points;
}

std::vector<KvPoint> measure_naive(const Model& model, const KvRunOptions& options,
                                   const std::vector<int64_t>& lengths) {
  if (lengths.empty()) return {};
  Runner run(model, options, {}, lengths.back());
  const auto whole = [&](int64_t length) {
    run.restart();
    run.read_to(length);
  };
  whole(lengths.front());
  std::vector<KvPoint> points;
  for (const int64_t length : lengths) {
    KvPoint point;
    point.length = length;
    for (int r = 0; r < (length > kMostRepeatedNaive ? 1 : options.repeats); ++r)
      point.seconds.push_back(timed([&] { whole(length); }));
    points.push_back(std::move(point));
  }
  return points;
}

double estimate_total(const std::vector<KvPoint>& points) {
  double total = 0, at = 0, seconds = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const double next = summarize(points[i].seconds).median;
    if (i == 0) seconds = next;  // shorter ones take no longer than the first
    const auto length = static_cast<double>(points[i].length);
    total += (length - at) * (seconds + next) / 2;
    at = length;
    seconds = next;
  }
  return total;
}

}  // namespace strata
