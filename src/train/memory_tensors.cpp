#include "train/memory_tensors.h"

#include <algorithm>

namespace strata {
namespace {

constexpr int64_t kLineFloats = 16;

}  // namespace

MemoryTensors::MemoryTensors(const std::vector<Shape>& shapes) {
  int64_t floats = 0;
  for (const Shape& s : shapes) {
    StoredTensor t;
    t.name = s.name;
    t.shape = s.shape;
    tensors_.push_back(std::move(t));
    floats += (tensors_.back().elements() + kLineFloats - 1) / kLineFloats * kLineFloats;
  }
  memory_ = AlignedBuffer(static_cast<size_t>(floats) * sizeof(float), HugePages::advise);
  std::fill_n(memory_.as<float>(), floats, 0.0f);
  int64_t at = 0;
  for (StoredTensor& t : tensors_) {
    t.bytes = {reinterpret_cast<const std::byte*>(memory_.as<float>() + at),
               static_cast<size_t>(t.elements()) * sizeof(float)};
    at += (t.elements() + kLineFloats - 1) / kLineFloats * kLineFloats;
  }
}

const StoredTensor* MemoryTensors::find(std::string_view name) const {
  const auto it = std::find_if(tensors_.begin(), tensors_.end(),
                               [&](const StoredTensor& t) { return t.name == name; });
  return it == tensors_.end() ? nullptr : &*it;
}

}  // namespace strata
