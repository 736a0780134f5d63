#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace strata {

// Values by pairs of token ids, which are not negative: a flat table, as training a tokenizer looks
// up some hundred million of them.
template <typename T>
class PairTable {
 public:
  using Pair = std::pair<int32_t, int32_t>;

  // A value that is not there yet is T{}. The reference holds until the next call.
  T& operator[](const Pair& pair) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = find(key_of(pair));
    if (slot.key == kFree) {
      slot.key = key_of(pair);
      ++used_;
    }
    return slot.value;
  }
  size_t size() const { return used_; }
  void clear() {
    if (used_ > 0) slots_.assign(slots_.size(), {});
    used_ = 0;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Slot {
    uint64_t key = kFree;
    T value{};
  };
  static uint64_t key_of(const Pair& p) {
    return static_cast<uint64_t>(static_cast<uint32_t>(p.first)) << 32 |
           static_cast<uint32_t>(p.second);
  }
  Slot& find(uint64_t key) {
    const size_t mask = slots_.size() - 1;
    const uint64_t hash = key * 0x9E3779B97F4A7C15u;
    size_t at = static_cast<size_t>(hash ^ hash >> 32) & mask;
    while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (Slot& s : old)
      if (s.key != kFree) find(s.key) = std::move(s);
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

}  // namespace strata
