#include "train/parameters.h"

#include <algorithm>

#include "numeric/half.h"
#include "train/memory_tensors.h"

namespace strata {
namespace {

constexpr int64_t kLineFloats = 16;
constexpr int64_t kGrain = 8192;  // elements worth another thread

int64_t padded(const WeightRef& w) {
  return (w.out * w.in + kLineFloats - 1) / kLineFloats * kLineFloats;
}

// Whether a product reads the weight.
bool is_operand(const Model& model, const WeightRef& w) {
  const Embedding& e = model.transformer.embedding;
  const bool looked_up = w.id == e.tokens.id && w.id != model.transformer.head.weight.id;
  return w.out > 1 && !looked_up && !(e.positions && w.id == e.positions.id);
}

}  // namespace

ParameterTable::ParameterTable(const Model& model, const Trainable& trainable, DType operands) {
  const auto* memory = dynamic_cast<const MemoryTensors*>(model.store.get());
  const bool rounds = operands == DType::bf16;
  int64_t values = 0, gradients = 0, rounded = 0;
  for (const WeightRef& w : model.weights) {
    if (memory == nullptr) values += padded(w);
    if (!trainable || trainable(w)) gradients += padded(w);
    if (rounds && is_operand(model, w)) rounded += padded(w);
  }
  values_ = AlignedBuffer(static_cast<size_t>(values) * sizeof(float), HugePages::advise);
  gradient_floats_ = static_cast<size_t>(gradients);
  gradients_ = AlignedBuffer(gradient_floats_ * sizeof(float), HugePages::advise);
  zero_gradients();
  rounded_ = AlignedBuffer(static_cast<size_t>(rounded) * sizeof(uint16_t), HugePages::advise);
  auto* copy = rounded_.as<uint16_t>();
  float* value = values_.as<float>();
  float* gradient = gradients_.as<float>();
  for (const WeightRef& w : model.weights) {
    Parameter p{w.name, w.out, w.in, nullptr, nullptr, nullptr};
    if (memory != nullptr) {
      p.value = memory->values(w);
    } else {
      p.value = value;
      value += padded(w);
      for (int64_t r = 0; r < w.out; ++r) decode_weight_row(w, r, p.value + r * w.in);
    }
    if (!trainable || trainable(w)) {
      p.gradient = gradient;
      gradient += padded(w);
      trainable_count_ += p.size();
    }
    if (rounds && is_operand(model, w)) {
      p.rounded = copy;
      copy += padded(w);
      std::transform(p.value, p.value + p.size(), p.rounded, encode_bf16);
    }
    parameters_.push_back(std::move(p));
  }
}

void ParameterTable::round_operands(ThreadPool& pool) const {
  for (const Parameter& p : parameters_)
    if (p.rounded != nullptr)
      pool.parallel_for(p.size(), kGrain, [&](int64_t begin, int64_t end) {
        std::transform(p.value + begin, p.value + end, p.rounded + begin, encode_bf16);
      });
}

ParameterTable::AsComputed::AsComputed(const ParameterTable& table)
    : table_(table), masters_(2 * table.rounded_bytes(), HugePages::advise) {
  float* kept = masters_.as<float>();
  for (const Parameter& p : table_.parameters_) {
    if (p.rounded == nullptr) continue;
    kept = std::copy_n(p.value, p.size(), kept);
    std::transform(p.rounded, p.rounded + p.size(), p.value, decode_bf16);
  }
}

ParameterTable::AsComputed::~AsComputed() {
  const float* kept = masters_.as<float>();
  for (const Parameter& p : table_.parameters_) {
    if (p.rounded == nullptr) continue;
    std::copy_n(kept, p.size(), p.value);
    kept += p.size();
  }
}

void ParameterTable::zero_gradients() {
  std::fill_n(gradients_.as<float>(), gradient_floats_, 0.0f);
}

}  // namespace strata
