#include "train/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "ops/adamw.h"
#include "ops/gemm.h"

namespace strata {
namespace {

constexpr int64_t kLineFloats = 16;
constexpr int64_t kGrain = 8192;  // elements of an update worth another thread

int64_t padded(int64_t n) { return (n + kLineFloats - 1) / kLineFloats * kLineFloats; }

}  // namespace

Optimizer::Optimizer(const ParameterTable& parameters, const OptimizerOptions& options,
                     const OpContext& context)
    : parameters_(parameters), options_(options), context_(context) {
  std::vector<std::pair<const Parameter*, std::string>> wanted;
  for (const Parameter& p : parameters_.all()) {
    if (!p.trainable()) continue;
    if (options_.kind == OptimizerKind::sgd || uses_muon(p)) {
      wanted.emplace_back(&p, ".momentum");
    } else {
      wanted.emplace_back(&p, ".mean");
      if (options_.kind != OptimizerKind::lion) wanted.emplace_back(&p, ".square");
    }
  }
  int64_t floats = 0;
  for (const auto& [p, suffix] : wanted) floats += padded(p->size());
  memory_ = AlignedBuffer(static_cast<size_t>(floats) * sizeof(float), HugePages::advise);
  std::fill_n(memory_.as<float>(), floats, 0.0f);
  float* at = memory_.as<float>();
  for (const auto& [p, suffix] : wanted) {
    state_.push_back({p->name + suffix, p, {at, static_cast<size_t>(p->size())}});
    at += padded(p->size());
  }
}

bool Optimizer::uses_muon(const Parameter& p) const {
  return options_.kind == OptimizerKind::muon && p.matrix() && p.name.rfind("blk.", 0) == 0;
}

void Optimizer::step(int64_t step, double learning_rate, float gradient_factor) {
  for (size_t i = 0; i < state_.size(); ++i) {
    const State& s = state_[i];
    const Parameter& p = *s.parameter;
    if (uses_muon(p)) {
      muon(s, learning_rate, gradient_factor);
    } else if (options_.kind == OptimizerKind::sgd) {
      sgd(s, learning_rate, gradient_factor);
    } else if (options_.kind == OptimizerKind::lion) {
      lion(s, learning_rate, gradient_factor);
    } else {
      AdamWOptions o;
      o.learning_rate = static_cast<float>(learning_rate);
      o.beta1 = static_cast<float>(options_.beta1);
      o.beta2 = static_cast<float>(options_.beta2);
      o.epsilon = static_cast<float>(options_.epsilon);
      o.weight_decay = p.matrix() ? static_cast<float>(options_.weight_decay) : 0.0f;
      o.gradient_factor = gradient_factor;
      o.step = step;
      const auto n = static_cast<size_t>(p.size());
      adamw({{p.value, n}, {p.gradient, n}, s.values, state_[++i].values}, o, context_);
    }
  }
  parameters_.round_operands(*context_.pool);
}

// m = momentum m + g;  p = p (1 - lr decay) - lr m.
void Optimizer::sgd(const State& s, double learning_rate, float factor) {
  const Parameter& p = *s.parameter;
  const auto rate = static_cast<float>(learning_rate);
  const auto momentum = static_cast<float>(options_.momentum);
  const float keep =
      1.0f - (p.matrix() ? static_cast<float>(learning_rate * options_.weight_decay) : 0.0f);
  float* m = s.values.data();
  context_.pool->parallel_for(p.size(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      m[i] = momentum * m[i] + factor * p.gradient[i];
      p.value[i] = p.value[i] * keep - rate * m[i];
    }
  });
}

// p = p (1 - lr decay) - lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g.
void Optimizer::lion(const State& s, double learning_rate, float factor) {
  const Parameter& p = *s.parameter;
  const auto rate = static_cast<float>(learning_rate);
  const auto beta1 = static_cast<float>(options_.beta1), beta2 = static_cast<float>(options_.beta2);
  const float keep =
      1.0f - (p.matrix() ? static_cast<float>(learning_rate * options_.weight_decay) : 0.0f);
  float* m = s.values.data();
  context_.pool->parallel_for(p.size(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float g = factor * p.gradient[i];
      const float u = beta1 * m[i] + (1 - beta1) * g;
      const float sign = u > 0 ? 1.0f : u < 0 ? -1.0f : u;  // NaN stays
      p.value[i] = p.value[i] * keep - rate * sign;
      m[i] = beta2 * m[i] + (1 - beta2) * g;
    }
  });
}

// Nesterov's momentum, made orthogonal; 0.2 sqrt(max(out, in)) gives it the size of AdamW's steps.
void Optimizer::muon(const State& s, double learning_rate, float factor) {
  const Parameter& p = *s.parameter;
  const auto momentum = static_cast<float>(options_.momentum);
  const Tensor update{DType::f32, p.out, p.in, p.in, workspace_.floats(p.size()), -1};
  auto* u = static_cast<float*>(update.data);
  float* m = s.values.data();
  context_.pool->parallel_for(p.size(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float g = factor * p.gradient[i];
      m[i] = momentum * m[i] + g;
      u[i] = g + momentum * m[i];
    }
  });
  orthogonalise(update, workspace_.nested(), context_);
  const double size = 0.2 * std::sqrt(static_cast<double>(std::max(p.out, p.in)));
  const auto rate = static_cast<float>(learning_rate * size);
  const float keep = 1.0f - static_cast<float>(learning_rate * options_.weight_decay);
  context_.pool->parallel_for(p.size(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) p.value[i] = p.value[i] * keep - rate * u[i];
  });
}

namespace {

// Coefficients of Jordan et al. 2024: the steepest slope at zero that still settles around one.
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
constexpr int kSteps = 5;
// Long sides from this many short ones on are cheaper to leave out of the steps.
constexpr double kElongated = 1.5;
// Rows of a strip of a symmetric product: less is computed in vain with fewer, and a product of
// fewer is slower.
constexpr int64_t kStrip = 128;

Tensor square(int64_t side, float* data) { return {DType::f32, side, side, side, data, -1}; }

Tensor part(const Tensor& t, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return {t.dtype, rows, columns, t.stride, t.row<float>(row) + column, -1};
}

// The lower half becomes the upper one's mirror image.
void mirror(const Tensor& c) {
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < i; ++j) c.row<float>(i)[j] = c.row<float>(j)[i];
}

// c = a b, of symmetric matrices that commute, as polynomials of one matrix do: symmetric too.
void multiply_symmetric(const Tensor& a, const Tensor& b, const Tensor& c, Workspace& workspace,
                        const OpContext& context) {
  const int64_t side = c.rows;
  for (int64_t i = 0; i < side; i += kStrip) {
    const int64_t rows = std::min(kStrip, side - i);
    gemm_nn(part(a, i, rows, 0, side), part(b, 0, side, i, side - i), part(c, i, rows, i, side - i),
            {}, workspace, context);
  }
  mirror(c);
}

// gram = x x^T, or x^T x of a tall x.
void gram_matrix(const Tensor& x, const Tensor& gram, Workspace& workspace,
                 const OpContext& context) {
  const int64_t side = gram.rows;
  for (int64_t i = 0; i < side; i += kStrip) {
    const int64_t rows = std::min(kStrip, side - i);
    const Tensor to = part(gram, i, rows, i, side - i);
    if (x.rows <= x.columns)
      gemm_nt(part(x, i, rows, 0, x.columns), part(x, i, side - i, 0, x.columns), to, {}, workspace,
              context);
    else
      gemm_tn(part(x, 0, x.rows, i, rows), part(x, 0, x.rows, i, side - i), to, {}, workspace,
              context);
  }
  mirror(gram);
}

// step = a + b gram + c gram^2, what a step of Newton and Schulz multiplies x by.
void step_matrix(const Tensor& gram, const Tensor& step, Workspace& workspace,
                 const OpContext& context) {
  multiply_symmetric(gram, gram, step, workspace, context);
  for (int64_t i = 0; i < gram.rows; ++i) {
    const float* g = gram.row<float>(i);
    float* s = step.row<float>(i);
    for (int64_t j = 0; j < gram.rows; ++j) s[j] = kB * g[j] + kC * s[j];
    s[i] += kA;
  }
}

// x = factor x, or x factor where factor is as large as x's rows; `room` has x's size.
void apply(const Tensor& factor, const Tensor& x, float* room, Workspace& workspace,
           const OpContext& context) {
  const Tensor next{DType::f32, x.rows, x.columns, x.columns, room, -1};
  if (x.rows <= x.columns)
    gemm_nn(factor, x, next, {}, workspace, context);
  else
    gemm_nn(x, factor, next, {}, workspace, context);
  std::copy_n(room, x.rows * x.columns, static_cast<float*>(x.data));
}

}  // namespace

void orthogonalise(const Tensor& x, Workspace& workspace, const OpContext& context) {
  const int64_t n = x.rows * x.columns;
  const int64_t side = std::min(x.rows, x.columns), area = side * side;
  auto* values = static_cast<float*>(x.data);
  const std::array<std::span<const float>, 1> all = {
      std::span<const float>(values, static_cast<size_t>(n))};
  const double norm = std::sqrt(sum_of_squares(all, context));
  const auto scale = static_cast<float>(1 / (norm + 1e-12));
  for (int64_t i = 0; i < n; ++i) values[i] *= scale;

  float* memory = workspace.floats(4 * area + n);
  Workspace& inner = workspace.nested();
  Tensor gram = square(side, memory), other = square(side, memory + area);
  const Tensor step = square(side, memory + 2 * area);
  float* room = memory + 4 * area;
  if (static_cast<double>(std::max(x.rows, x.columns)) < kElongated * static_cast<double>(side)) {
    for (int i = 0; i < kSteps; ++i) {
      gram_matrix(x, gram, inner, context);
      step_matrix(gram, step, inner, context);
      apply(step, x, room, inner, context);
    }
    return;
  }
  // All steps are polynomials of the first Gram matrix: their product is built in the small square
  // and x multiplied once. A step s turns the Gram matrix into s gram s.
  Tensor product = square(side, memory + 3 * area);
  gram_matrix(x, gram, inner, context);
  for (int i = 0; i < kSteps; ++i) {
    step_matrix(gram, step, inner, context);
    if (i == 0) {
      std::copy_n(static_cast<float*>(step.data), area, static_cast<float*>(product.data));
    } else {
      multiply_symmetric(step, product, other, inner, context);
      std::swap(other, product);
    }
    if (i + 1 == kSteps) break;
    multiply_symmetric(step, gram, other, inner, context);
    multiply_symmetric(step, other, gram, inner, context);
  }
  apply(product, x, room, inner, context);
}

}  // namespace strata
