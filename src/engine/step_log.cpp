#include "engine/step_log.h"

#include <algorithm>

namespace strata {

void StepLog::add(const StepRecord& record, std::span<const StepRecord::Part> parts) {
  const std::lock_guard lock(mutex_);
  const size_t slot = steps_ % kSteps;
  records_[slot] = record;
  records_[slot].number = ++steps_;
  firsts_[slot] = all_parts_;
  counts_[slot] = parts.size();
  for (const StepRecord::Part& part : parts) parts_[all_parts_++ % kParts] = part;
}

std::vector<LoggedStep> StepLog::since(uint64_t number, size_t most) const {
  const std::lock_guard lock(mutex_);
  std::vector<LoggedStep> out;
  const uint64_t oldest = steps_ > kSteps ? steps_ - kSteps : 0;
  for (uint64_t i = std::max(number, oldest); i < steps_ && out.size() < most; ++i) {
    const size_t slot = i % kSteps;
    if (firsts_[slot] + kParts < all_parts_) continue;  // its parts were written over
    LoggedStep step{records_[slot], {}};
    for (size_t k = 0; k < counts_[slot]; ++k)
      step.parts.push_back(parts_[(firsts_[slot] + k) % kParts]);
    out.push_back(std::move(step));
  }
  return out;
}

uint64_t StepLog::last() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

double StepLog::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

}  // namespace strata
