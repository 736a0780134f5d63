#include "text/word_counts.h"

#include <algorithm>

#include "base/error.h"
#include "text/byte_hash.h"

namespace strata {

void WordCounts::add(std::string_view word, int64_t count) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  const uint64_t hash = hash_bytes(word.data(), word.size());
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    if (slots_[at] == 0) {
      if (word.size() > UINT32_MAX || used_ + 1 > UINT32_MAX / 2)
        fail(ErrorCode::resource_exhausted, "tokenizer train: too many words, or one is too long");
      entries_.push_back({hash, bytes_.size(), static_cast<uint32_t>(word.size()), count});
      bytes_ += word;
      slots_[at] = static_cast<uint32_t>(++used_);
      return;
    }
    Entry& e = entries_[slots_[at] - 1];
    if (e.hash == hash && std::string_view(bytes_).substr(e.start, e.size) == word) {
      e.count += count;
      return;
    }
  }
}

void WordCounts::grow() {
  slots_.assign(std::max<size_t>(1024, 2 * slots_.size()), 0);
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < used_; ++i) {
    size_t at = entries_[i].hash & mask;
    while (slots_[at] != 0) at = (at + 1) & mask;
    slots_[at] = static_cast<uint32_t>(i + 1);
  }
}

std::vector<WordCounts::Word> WordCounts::words() const {
  std::vector<Word> all;
  all.reserve(used_);
  for (const Entry& e : entries_)
    all.push_back({std::string_view(bytes_).substr(e.start, e.size), e.count});
  return all;
}

}  // namespace strata
