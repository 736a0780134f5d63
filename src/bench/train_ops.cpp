#include "bench/train_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "base/aligned.h"
#include "bench/peak_memory.h"
#include "bench/timing.h"
#include "ops/adamw.h"
#include "ops/cross_entropy.h"
#include "ops/gemm.h"
#include "ops/norm.h"
#include "ops/train_attention.h"

namespace strata {
namespace {

constexpr double kSecondsPerRepeat = 0.1;
// Of one operand that is streamed: more than last-level caches hold.
constexpr int64_t kColdBytes = int64_t{128} << 20;
// Rows of logits: a chunk of the fused head has as many.
constexpr int64_t kLogitRows = 512;

// A matrix with memory of its own, of both signs, no two rows alike.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns)
      : memory_(static_cast<size_t>(rows * columns) * sizeof(float), HugePages::advise) {
    tensor_.dtype = DType::f32;
    tensor_.rows = rows;
    tensor_.columns = tensor_.stride = columns;
    tensor_.data = memory_.as<float>();
    uint64_t state = static_cast<uint64_t>(rows * 31 + columns);
    for (int64_t i = 0; i < rows * columns; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      memory_.as<float>()[i] = static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1;
    }
  }
  const Tensor& tensor() const { return tensor_; }
  float* data() const { return memory_.as<float>(); }
  std::span<float> values() const {
    return {data(), static_cast<size_t>(tensor_.rows * tensor_.columns)};
  }
  double bytes() const { return 4.0 * static_cast<double>(tensor_.rows * tensor_.columns); }

 private:
  AlignedBuffer memory_;
  Tensor tensor_;
};

class TrainOpsRun {
 public:
  TrainOpsRun(const TrainOpsCase& c, const OpContext& context, int repeats,
              const std::function<void()>& check)
      : c_(c), context_(context), repeats_(repeats), check_(check) {}

  void measure(TrainOp op) {
    switch (op) {
      case TrainOp::nt:
      case TrainOp::nn:
      case TrainOp::tn:
        for (const WeightShape& w : c_.weights) product(op, w);
        return;
      case TrainOp::attention:
        return attention();
      case TrainOp::norm:
        return norms();
      case TrainOp::cross_entropy:
        return losses();
      case TrainOp::adamw:
        return optimizer();
    }
  }
  std::vector<Measurement> take() { return std::move(all_); }

 private:
  // Runs `step` until a repeat takes kSecondsPerRepeat; values in `units` per second.
  template <typename Step>
  std::vector<double> rates(double units, Step step) {
    const double start = now_seconds();
    step();
    const double once = std::max(now_seconds() - start, 1e-7);
    const auto calls = std::max<int64_t>(1, static_cast<int64_t>(kSecondsPerRepeat / once));
    std::vector<double> values;
    for (int r = 0; r < repeats_; ++r) {
      if (check_) check_();
      const double begin = now_seconds();
      for (int64_t i = 0; i < calls; ++i) step();
      values.push_back(units * static_cast<double>(calls) / (now_seconds() - begin));
    }
    return values;
  }

  Measurement& add(const char* what, OrderedJson params, const char* unit, double units,
                   std::vector<double> values) {
    Measurement m;
    m.what = what;
    m.params = std::move(params);
    m.unit = unit;
    m.units = units;
    m.values = std::move(values);
    return all_.emplace_back(std::move(m));
  }
  template <typename Step>
  Measurement& arithmetic(const char* what, OrderedJson params, double operations, Step step) {
    Measurement& m =
        add(what, std::move(params), "GFLOP/s", 1e-9 * operations, rates(1e-9 * operations, step));
    m.work.add_product(TensorType::f32, operations);
    return m;
  }
  template <typename Step>
  void streaming(const char* what, OrderedJson params, double read_bytes, Step step) {
    Measurement& m =
        add(what, std::move(params), "GB/s", 1e-9 * read_bytes, rates(1e-9 * read_bytes, step));
    m.work.read_bytes = read_bytes;
  }

  void product(TrainOp op, const WeightShape& shape) {
    const Matrix x(c_.rows, shape.in), y(c_.rows, shape.out), w(shape.out, shape.in);
    const double operations = 2.0 * static_cast<double>(c_.rows) * static_cast<double>(shape.out) *
                              static_cast<double>(shape.in);
    const OrderedJson params = {{"rows", c_.rows}, {"out", shape.out}, {"in", shape.in}};
    const char* const what = op == TrainOp::nt   ? "gemm_nt"
                             : op == TrainOp::nn ? "gemm_nn"
                                                 : "gemm_tn";
    arithmetic(what, params, operations, [&] {
      if (op == TrainOp::nt)
        gemm_nt(x.tensor(), w.tensor(), y.tensor(), {}, workspace_, context_);
      else if (op == TrainOp::nn)
        gemm_nn(y.tensor(), w.tensor(), x.tensor(), {}, workspace_, context_);
      else
        gemm_tn(y.tensor(), x.tensor(), w.tensor(), {}, workspace_, context_);
    });
  }

  void attention() {
    const int64_t n = c_.tokens, width = int64_t{c_.heads} * c_.head_size;
    const Matrix q(n, width), k(n, width), v(n, width), y(n, width), d_y(n, width);
    const Matrix d_q(n, width), d_k(n, width), d_v(n, width);
    const Matrix max(c_.heads, n), sum(c_.heads, n);
    std::vector<int32_t> begin(static_cast<size_t>(n)), end(static_cast<size_t>(n));
    const AttentionSequence sequence{0, n, 0, n};
    const std::span<const AttentionSequence> sequences(&sequence, 1);
    attention_ranges(sequences, AttentionMask::causal, 0, begin.data(), end.data());
    AttentionHeads heads;
    heads.heads = heads.kv_heads = c_.heads;
    heads.head_size = c_.head_size;
    heads.scale = 1.0f / std::sqrt(static_cast<float>(c_.head_size));
    const AttentionVisibility visible{sequences, begin.data(), end.data()};
    const AttentionSaved saved{max.data(), sum.data(), n};
    const double products =
        static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(width);
    const OrderedJson params = {
        {"heads", c_.heads}, {"head_size", c_.head_size}, {"tokens", c_.tokens}};

    const PeakMemory peak;
    Workspace workspace;  // fresh: what an earlier op grew is none of this one's memory
    arithmetic("train_attention_forward", params, 2 * products, [&] {
      train_attention_forward(q.tensor(), k.tensor(), v.tensor(), heads, visible, y.tensor(), saved,
                              workspace, context_);
    });
    arithmetic("train_attention_backward", params, 5 * products, [&] {
      train_attention_backward(q.tensor(), k.tensor(), v.tensor(), heads, visible, y.tensor(),
                               saved, d_y.tensor(), {d_q.tensor(), d_k.tensor(), d_v.tensor()},
                               workspace, context_);
    });
    const int64_t bytes = peak.bytes();
    if (bytes < 0) return;
    for (size_t i = all_.size() - 2; i < all_.size(); ++i) all_[i].params["peak_bytes"] = bytes;
  }

  void norms() {
    const int64_t rows = std::max<int64_t>(1, kColdBytes / (4 * c_.width));
    const Matrix x(rows, c_.width), y(rows, c_.width), d_y(rows, c_.width);
    const Matrix weight(1, c_.width), bias(1, c_.width), d_weight(1, c_.width), d_bias(1, c_.width);
    const OrderedJson params = {{"rows", rows}, {"width", c_.width}};
    const NormWeights rms{weight.data(), nullptr, 1e-5f}, layer{weight.data(), bias.data(), 1e-5f};
    NormGradients out;
    out.d_x = y.tensor();
    out.d_weight = d_weight.data();
    streaming("rms_norm_forward", params, x.bytes(),
              [&] { rms_norm_forward(x.tensor(), rms, y.tensor(), context_); });
    streaming("rms_norm_backward", params, 2 * x.bytes(),
              [&] { rms_norm_backward(x.tensor(), rms, d_y.tensor(), out, workspace_, context_); });
    out.d_bias = d_bias.data();
    streaming("layer_norm_forward", params, x.bytes(),
              [&] { layer_norm_forward(x.tensor(), layer, y.tensor(), context_); });
    streaming("layer_norm_backward", params, 2 * x.bytes(), [&] {
      layer_norm_backward(x.tensor(), layer, d_y.tensor(), out, workspace_, context_);
    });
  }

  void losses() {
    const int64_t rows = kLogitRows, vocabulary = c_.vocabulary;
    std::vector<int32_t> targets(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r)
      targets[static_cast<size_t>(r)] = static_cast<int32_t>(r * 7919 % vocabulary);
    CrossEntropyOptions options;
    options.factor = 1.0f / static_cast<float>(rows);
    {
      // Logits become their gradients; those of the next call are the last one's, as good as any.
      const Matrix logits(rows, vocabulary);
      streaming("cross_entropy", {{"rows", rows}, {"vocabulary", vocabulary}}, logits.bytes(), [&] {
        cross_entropy(logits.tensor(), targets.data(), options, workspace_, context_);
      });
    }
    const Matrix x(rows, c_.width), d_x(rows, c_.width);
    const Matrix w(vocabulary, c_.width), d_w(vocabulary, c_.width);
    const double operations = 6.0 * static_cast<double>(rows) * static_cast<double>(vocabulary) *
                              static_cast<double>(c_.width);
    arithmetic("cross_entropy_head",
               {{"rows", rows}, {"vocabulary", vocabulary}, {"width", c_.width}}, operations, [&] {
                 cross_entropy_head(x.tensor(), w.tensor(), targets.data(), options,
                                    {d_x.tensor(), d_w.tensor()}, workspace_, context_);
               });
  }

  void optimizer() {
    const int64_t parameters = kColdBytes / 4;
    const Matrix parameter(1, parameters), gradient(1, parameters), mean(1, parameters);
    const Matrix square(1, parameters);
    for (float& s : square.values()) s *= s;
    const AdamWTensor tensor{parameter.values(), gradient.values(), mean.values(), square.values()};
    AdamWOptions options;
    options.weight_decay = 0.1f;
    const OrderedJson params = {{"parameters", parameters}};
    streaming("adamw", params, 4 * parameter.bytes(), [&] {
      adamw(tensor, options, context_);
      ++options.step;
    });
    const std::array<std::span<const float>, 1> gradients = {gradient.values()};
    streaming("gradient_norm", params, gradient.bytes(),
              [&] { norm_ += sum_of_squares(gradients, context_); });
  }

  const TrainOpsCase& c_;
  const OpContext& context_;
  const int repeats_;
  const std::function<void()>& check_;
  Workspace workspace_;
  double norm_ = 0;
  std::vector<Measurement> all_;
};

}  // namespace

const std::vector<std::string>& train_op_names() {
  static const std::vector<std::string> names = {
      "nt", "nn", "tn", "attention", "norm", "cross-entropy", "adamw"};
  return names;
}

TrainOpsCase::TrainOpsCase()
    : ops{TrainOp::nt,        TrainOp::nn,   TrainOp::tn,
          TrainOp::attention, TrainOp::norm, TrainOp::cross_entropy,
          TrainOp::adamw},
      weights{{1152, 384}, {384, 384}, {1536, 384}, {384, 1536}} {}

std::vector<Measurement> measure_train_ops(const TrainOpsCase& c, const OpContext& context,
                                           int repeats, const std::function<void()>& check) {
  TrainOpsRun run(c, context, repeats, check);
  for (const TrainOp op : c.ops) run.measure(op);
  return run.take();
}

}  // namespace strata
