#include "exec/rope_table.h"

#include <cmath>

#include "base/error.h"

namespace strata {

RopeTable::RopeTable(const Rope& rope, int64_t context)
    : rope_(&rope),
      size_(static_cast<int64_t>(rope.inverse_frequency.size())),
      context_(context),
      stride_(size_ * (rope.layout == Rope::Layout::pairs ? 4 : 2)),
      memory_(static_cast<size_t>(stride_ * context) * sizeof(float)) {}

void RopeTable::fill_to(int64_t last) {
  if (last >= context_)
    fail(ErrorCode::invalid_argument, "rope: position {} is beyond the context of {} tokens", last,
         context_);
  for (; filled_ <= last; ++filled_) compute(filled_, memory_.as<float>() + filled_ * stride_);
}

void RopeTable::compute(int64_t position, float* row) const {
  float* const c = row;
  float* const s = row + stride_ / 2;
  for (int64_t i = 0; i < size_; ++i) {
    const double angle =
        static_cast<double>(position) * rope_->inverse_frequency[static_cast<size_t>(i)];
    const auto cosine = static_cast<float>(std::cos(angle) * rope_->attention_factor);
    const auto sine = static_cast<float>(std::sin(angle) * rope_->attention_factor);
    if (rope_->layout == Rope::Layout::pairs) {
      c[2 * i] = c[2 * i + 1] = cosine;
      s[2 * i] = -sine;
      s[2 * i + 1] = sine;
    } else {
      c[i] = cosine;
      s[i] = sine;
    }
  }
}

}  // namespace strata
