#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

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

void orthogonalise(const Tensor& x, Workspace& workspace, const OpContext& context) {
  // Coefficients of Jordan et al. 2024: the steepest slope at zero that still settles around one.
  constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
  constexpr int kSteps = 5;
  const int64_t rows = x.rows, columns = x.columns, n = rows * columns;
  const bool wide = rows <= columns;  // the Gram matrix is taken over the shorter side
  const int64_t side = std::min(rows, columns);
  auto* values = static_cast<float*>(x.data);
  const std::array<std::span<const float>, 1> all = {
      std::span<const float>(values, static_cast<size_t>(n))};
  const double norm = std::sqrt(sum_of_squares(all, context));
  const auto scale = static_cast<float>(1 / (norm + 1e-12));
  for (int64_t i = 0; i < n; ++i) values[i] *= scale;
  float* memory = workspace.floats(2 * side * side + n);
  const Tensor gram{DType::f32, side, side, side, memory, -1};
  const Tensor mixed{DType::f32, side, side, side, memory + side * side, -1};
  const Tensor next{DType::f32, rows, columns, columns, memory + 2 * side * side, -1};
  Workspace& inner = workspace.nested();
  for (int step = 0; step < kSteps; ++step) {
    if (wide)
      gemm_nt(x, x, gram, {}, inner, context);
    else
      gemm_tn(x, x, gram, {}, inner, context);
    // b gram + c gram^2, symmetric.
    gemm_nn(gram, gram, mixed, {}, inner, context);
    auto* g = static_cast<float*>(gram.data);
    auto* m = static_cast<float*>(mixed.data);
    for (int64_t i = 0; i < side * side; ++i) m[i] = kB * g[i] + kC * m[i];
    if (wide)
      gemm_nn(mixed, x, next, {}, inner, context);
    else
      gemm_nn(x, mixed, next, {}, inner, context);
    auto* y = static_cast<float*>(next.data);
    context.pool->parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[i] = kA * values[i] + y[i];
    });
  }
}

}  // namespace strata
