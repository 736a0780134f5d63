#include "exec/ref_exec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <thread>

#include "base/error.h"
#include "numeric/activation_block.h"
#include "numeric/half.h"

namespace strata {
namespace {

// Calls body(first, last) on `threads` pieces of [0, count). The body must not throw.
template <typename Body>
void split_over_threads(int64_t count, int threads, const Body& body) {
  const int64_t pieces = std::clamp<int64_t>(threads, 1, std::max<int64_t>(count, 1));
  std::vector<std::jthread> workers;
  for (int64_t p = 1; p < pieces; ++p)
    workers.emplace_back([=, &body] { body(count * p / pieces, count * (p + 1) / pieces); });
  body(0, count / pieces);
}

double activate(double x, Activation activation) {
  switch (activation) {
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu_tanh: {
      const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1 + std::tanh(inner));
    }
    case Activation::gelu_erf:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::relu:
      return std::max(x, 0.0);
  }
  return x;
}

bool is_quantised(TensorType type) { return tensor_type_info(type).block_elements > 1; }

double rounded_to(RefOptions::Kv kv, double x) {
  const auto f = static_cast<float>(x);
  if (kv == RefOptions::Kv::f16) return decode_f16(encode_f16(f));
  if (kv == RefOptions::Kv::bf16) return decode_bf16(encode_bf16(f));
  return x;
}

// Tokens that share one pass over a row of weights: their sums advance side by side, each in the
// order of the inputs, so a token's result is the same in any company.
constexpr int kTile = 8;

}  // namespace

void quantise_block(const double* x, int64_t count, double* out) {
  float largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(static_cast<float>(x[i]));
    finite = finite && std::isfinite(magnitude);
    largest = std::max(largest, magnitude);
  }
  if (!finite || largest < kActivationFloor) {
    std::fill_n(out, count, finite ? 0.0 : std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const float scale = largest / 127.0f;
  const float inverse = 127.0f / largest;
  for (int64_t i = 0; i < count; ++i) {
    const float q = std::nearbyint(static_cast<float>(x[i]) * inverse);
    out[i] = static_cast<double>(q) * static_cast<double>(scale);
  }
}

void RefExec::begin(const Batch& /*batch*/) { arena_.reset(); }

Tensor RefExec::new_tensor(int64_t rows, int64_t columns) {
  return arena_.tensor(DType::f64, rows, columns);
}

Tensor RefExec::tensor_of(std::span<const float> values, int64_t rows, int64_t columns) {
  STRATA_ASSERT(static_cast<int64_t>(values.size()) == rows * columns);
  const Tensor t = new_tensor(rows, columns);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      t.row<double>(r)[c] = static_cast<double>(values[static_cast<size_t>(r * columns + c)]);
  return t;
}

Tensor RefExec::finished(const Tensor& t) const {
  if (options_.activations == RefOptions::Activations::exact) return t;
  for (int64_t r = 0; r < t.rows; ++r) {
    auto* row = t.row<double>(r);
    for (int64_t c = 0; c < t.columns; ++c) row[c] = static_cast<float>(row[c]);
  }
  return t;
}

void RefExec::cache(const WeightRef& w) {
  if (!options_.cache_weights) return;
  if (cached_.size() <= static_cast<size_t>(w.id)) cached_.resize(static_cast<size_t>(w.id) + 1);
  auto& values = cached_[static_cast<size_t>(w.id)];
  if (!values.empty()) return;
  values.resize(static_cast<size_t>(w.out * w.in));
  split_over_threads(w.out, options_.threads, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) decode_weight_row(w, r, values.data() + r * w.in);
  });
}

const float* RefExec::weight_row(const WeightRef& w, int64_t row,
                                 std::vector<float>& buffer) const {
  const auto id = static_cast<size_t>(w.id);
  if (id < cached_.size() && !cached_[id].empty()) return cached_[id].data() + row * w.in;
  buffer.resize(static_cast<size_t>(w.in));
  decode_weight_row(w, row, buffer.data());
  return buffer.data();
}

Tensor RefExec::embed(const Embedding& w, const Batch& batch) {
  const Tensor y = new_tensor(batch.size(), w.tokens.in);
  std::vector<float> buffer;
  for (int64_t r = 0; r < y.rows; ++r) {
    auto* out = y.row<double>(r);
    const float* token = weight_row(w.tokens, batch.tokens[static_cast<size_t>(r)], buffer);
    for (int64_t i = 0; i < y.columns; ++i) out[i] = static_cast<double>(token[i]) * w.scale;
    if (!w.positions) continue;
    const float* position =
        weight_row(w.positions, batch.positions[static_cast<size_t>(r)], buffer);
    for (int64_t i = 0; i < y.columns; ++i) out[i] += static_cast<double>(position[i]);
  }
  return finished(y);
}

Tensor RefExec::norm(const Tensor& x, const Norm& w) {
  const Tensor y = new_tensor(x.rows, x.columns);
  const int64_t group = w.weight.in;
  std::vector<float> weight_buffer;
  std::vector<float> bias_buffer;
  const float* weight = weight_row(w.weight, 0, weight_buffer);
  const float* bias = w.bias ? weight_row(w.bias, 0, bias_buffer) : nullptr;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t first = 0; first < x.columns; first += group) {
      const double* in = x.row<double>(r) + first;
      double* out = y.row<double>(r) + first;
      double mean = 0;
      if (w.kind == NormKind::layer) {
        for (int64_t i = 0; i < group; ++i) mean += in[i];
        mean /= static_cast<double>(group);
      }
      double variance = 0;
      for (int64_t i = 0; i < group; ++i) variance += (in[i] - mean) * (in[i] - mean);
      variance /= static_cast<double>(group);
      const double inverse = 1 / std::sqrt(variance + w.epsilon);
      for (int64_t i = 0; i < group; ++i) {
        out[i] = (in[i] - mean) * inverse * (static_cast<double>(weight[i]) + w.weight_offset);
        if (bias != nullptr) out[i] += static_cast<double>(bias[i]);
      }
    }
  }
  return finished(y);
}

Tensor RefExec::rope(const Tensor& x, int heads, int head_size, const Rope& rope,
                     const Batch& batch) {
  const Tensor y = new_tensor(x.rows, x.columns);
  const auto pairs = static_cast<int64_t>(rope.inverse_frequency.size());
  for (int64_t r = 0; r < x.rows; ++r) {
    std::copy_n(x.row<double>(r), x.columns, y.row<double>(r));
    const double position = batch.positions[static_cast<size_t>(r)];
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = position * rope.inverse_frequency[static_cast<size_t>(i)];
      const double cosine = std::cos(angle) * rope.attention_factor;
      const double sine = std::sin(angle) * rope.attention_factor;
      const bool halves = rope.layout == Rope::Layout::halves;
      const int64_t first = halves ? i : 2 * i;
      const int64_t second = halves ? i + pairs : 2 * i + 1;
      for (int h = 0; h < heads; ++h) {
        double* head = y.row<double>(r) + static_cast<int64_t>(h) * head_size;
        const double a = head[first];
        const double b = head[second];
        head[first] = a * cosine - b * sine;
        head[second] = a * sine + b * cosine;
      }
    }
  }
  return finished(y);
}

Tensor RefExec::attend(const Qkv& qkv, const AttentionConfig& c, int /*layer*/,
                       const Batch& batch) {
  const int64_t size = c.head_size;
  const Tensor y = new_tensor(batch.size(), c.heads * size);
  const Tensor k = new_tensor(qkv.k.rows, qkv.k.columns);
  const Tensor v = new_tensor(qkv.v.rows, qkv.v.columns);
  for (int64_t r = 0; r < k.rows; ++r) {
    for (int64_t i = 0; i < k.columns; ++i) {
      k.row<double>(r)[i] = rounded_to(options_.kv, qkv.k.row<double>(r)[i]);
      v.row<double>(r)[i] = rounded_to(options_.kv, qkv.v.row<double>(r)[i]);
    }
  }

  // Query row r of sequence s, head h.
  const auto attend_row = [&](const SequenceRows& s, int64_t r, int h,
                              std::vector<double>& weight) {
    const int64_t kv_offset = static_cast<int64_t>(h / (c.heads / c.kv_heads)) * size;
    const double* q = qkv.q.row<double>(r) + h * size;
    double* out = y.row<double>(r) + h * size;
    const int64_t first_key =
        c.window > 0 ? std::max<int64_t>(s.first_row, r - c.window + 1) : s.first_row;
    weight.assign(static_cast<size_t>(r - first_key + 1), 0);
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t key = first_key; key <= r; ++key) {
      double dot = 0;
      for (int64_t i = 0; i < size; ++i) dot += q[i] * (k.row<double>(key) + kv_offset)[i];
      weight[static_cast<size_t>(key - first_key)] = dot * c.scale;
      largest = std::max(largest, dot * c.scale);
    }
    double sum = 0;
    for (double& score : weight) sum += score = std::exp(score - largest);
    std::fill_n(out, size, 0.0);
    for (int64_t key = first_key; key <= r; ++key) {
      const double share = weight[static_cast<size_t>(key - first_key)] / sum;
      for (int64_t i = 0; i < size; ++i) out[i] += share * (v.row<double>(key) + kv_offset)[i];
    }
  };

  for (const SequenceRows& s : batch.sequences) {
    STRATA_ASSERT(s.first_position == 0);  // no cache: the rows are the whole sequence
    split_over_threads(c.heads, options_.threads, [&](int64_t first, int64_t last) {
      std::vector<double> weight;
      for (int64_t h = first; h < last; ++h)
        for (int64_t r = s.first_row; r < s.first_row + s.rows; ++r)
          attend_row(s, r, static_cast<int>(h), weight);
    });
  }
  return finished(y);
}

Tensor RefExec::linear(const Tensor& x, const Linear& w) {
  const WeightRef& weight = w.weight;
  const int64_t in = weight.in;
  const Tensor y = new_tensor(x.rows, weight.out);
  const bool quantise =
      options_.activations == RefOptions::Activations::int8 && is_quantised(weight.type);

  // Tiles of kTile tokens, transposed: element i of token t of a tile at [i * kTile + t].
  const int64_t tiles = (x.rows + kTile - 1) / kTile;
  std::vector<double> transposed(static_cast<size_t>(tiles * in * kTile), 0.0);
  std::vector<double> row(static_cast<size_t>(in));
  for (int64_t r = 0; r < x.rows; ++r) {
    std::copy_n(x.row<double>(r), in, row.data());
    if (quantise)
      for (int64_t i = 0; i < in; i += 32)
        quantise_block(row.data() + i, std::min<int64_t>(32, in - i), row.data() + i);
    double* tile = transposed.data() + r / kTile * in * kTile + r % kTile;
    for (int64_t i = 0; i < in; ++i) tile[i * kTile] = row[static_cast<size_t>(i)];
  }

  cache(weight);
  std::vector<float> bias_buffer;
  const float* bias = w.bias ? weight_row(w.bias, 0, bias_buffer) : nullptr;
  split_over_threads(weight.out, options_.threads, [&](int64_t first, int64_t last) {
    std::vector<float> buffer;
    for (int64_t o = first; o < last; ++o) {
      const float* values = weight_row(weight, o, buffer);
      for (int64_t t = 0; t < tiles; ++t) {
        const double* tile = transposed.data() + t * in * kTile;
        double sums[kTile] = {};
        for (int64_t i = 0; i < in; ++i) {
          const double value = values[i];
          for (int j = 0; j < kTile; ++j) sums[j] += value * tile[i * kTile + j];
        }
        const int64_t rows = std::min<int64_t>(kTile, x.rows - t * kTile);
        for (int64_t j = 0; j < rows; ++j)
          y.row<double>(t * kTile + j)[o] =
              sums[j] + (bias != nullptr ? static_cast<double>(bias[o]) : 0.0);
      }
    }
  });
  return finished(y);
}

Tensor RefExec::logits(const Tensor& x, const Linear& head) { return linear(x, head); }

Tensor RefExec::act(const Tensor& x, Activation activation) {
  const Tensor y = new_tensor(x.rows, x.columns);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t i = 0; i < x.columns; ++i)
      y.row<double>(r)[i] = activate(x.row<double>(r)[i], activation);
  return finished(y);
}

Tensor RefExec::act_mul(const Tensor& gate, const Tensor& up, Activation activation) {
  const Tensor y = new_tensor(up.rows, up.columns);
  for (int64_t r = 0; r < up.rows; ++r)
    for (int64_t i = 0; i < up.columns; ++i)
      y.row<double>(r)[i] = activate(gate.row<double>(r)[i], activation) * up.row<double>(r)[i];
  return finished(y);
}

Tensor RefExec::add(const Tensor& a, const Tensor& b) {
  const Tensor y = new_tensor(a.rows, a.columns);
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t i = 0; i < a.columns; ++i)
      y.row<double>(r)[i] = a.row<double>(r)[i] + b.row<double>(r)[i];
  return finished(y);
}

Tensor RefExec::take_rows(const Tensor& x, std::span<const int32_t> rows) {
  const Tensor y = new_tensor(static_cast<int64_t>(rows.size()), x.columns);
  for (int64_t r = 0; r < y.rows; ++r)
    std::copy_n(x.row<double>(rows[static_cast<size_t>(r)]), x.columns, y.row<double>(r));
  return y;
}

void RefExec::observe(std::string_view name, int layer, const Tensor& t) {
  if (options_.observer) options_.observer(name, layer, t);
}

}  // namespace strata
