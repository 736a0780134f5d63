#pragma once

#include <cstdint>
#include <memory>

#include "base/aligned.h"

namespace strata {

// Memory that an op needs only while it runs. Grows to the largest request and stays, so that a
// training step of a shape seen before allocates nothing. One op at a time may use it.
class Workspace {
 public:
  // `count` uninitialised floats on a 64-byte boundary; what an earlier call returned is lost.
  // Throws Error{resource_exhausted} without memory.
  float* floats(int64_t count) {
    const auto bytes = static_cast<size_t>(count) * sizeof(float);
    if (bytes > memory_.size()) {
      memory_ = AlignedBuffer();
      memory_ = AlignedBuffer(bytes, HugePages::advise);
    }
    return memory_.as<float>();
  }
  // A further one, for the ops that an op calls while its own memory is in use.
  Workspace& nested() {
    if (nested_ == nullptr) nested_ = std::make_unique<Workspace>();
    return *nested_;
  }
  size_t held_bytes() const {
    return memory_.size() + (nested_ == nullptr ? 0 : nested_->held_bytes());
  }

 private:
  AlignedBuffer memory_;
  std::unique_ptr<Workspace> nested_;
};

}  // namespace strata
