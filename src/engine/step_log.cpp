#include "engine/step_log.h"

#include <algorithm>

namespace strata {

void StepLog::add(const StepRecord& record, std::span<const StepRecord::Part> parts) {
  const std::lock_guard lock(mutex_);
  const size_t slot = steps_ % kSteps;
  // Field by field, so that the ring's own empty vector stays as it is.
  StepRecord& to = records_[slot];
  to.number = ++steps_;
  to.begin_seconds = record.begin_seconds;
  to.seconds = record.seconds;
  to.padding_rows = record.padding_rows;
  to.held_bytes = record.held_bytes;
  to.cached_bytes = record.cached_bytes;
  to.needed_bytes = record.needed_bytes;
  to.contiguous_bytes = record.contiguous_bytes;
  firsts_[slot] = all_parts_;
  counts_[slot] = parts.size();
  for (const StepRecord::Part& part : parts) parts_[all_parts_++ % kParts] = part;
}

std::vector<StepRecord> StepLog::since(uint64_t number, size_t most) const {
  const std::lock_guard lock(mutex_);
  std::vector<StepRecord> out;
  const uint64_t oldest = steps_ > kSteps ? steps_ - kSteps : 0;
  for (uint64_t i = std::max(number, oldest); i < steps_ && out.size() < most; ++i) {
    const size_t slot = i % kSteps;
    if (firsts_[slot] + kParts < all_parts_) continue;  // its parts were written over
    StepRecord record = records_[slot];
    for (size_t k = 0; k < counts_[slot]; ++k)
      record.parts.push_back(parts_[(firsts_[slot] + k) % kParts]);
    out.push_back(std::move(record));
  }
  return out;
}

uint64_t StepLog::last() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

}  // namespace strata
