#include "text/word_cache.h"

#include "text/byte_hash.h"

namespace strata {
namespace {

constexpr size_t kLongestKey = 64;       // longer words hardly repeat
constexpr size_t kFirstSlots = 256;      // small, so that short texts do not pay for it
constexpr size_t kMostWords = 1u << 17;  // about 8 MB; then the cache only answers
constexpr size_t kMostProbes = 16;       // a text made of colliding words falls back to no cache

}  // namespace

void WordCache::grow() {
  std::vector<Entry> old = std::move(entries_);
  entries_.assign(old.empty() ? kFirstSlots : old.size() * 2, Entry{});
  const size_t mask = entries_.size() - 1;
  for (const Entry& e : old) {
    if (e.key_size == 0) continue;
    size_t i = e.hash & mask;
    while (entries_[i].key_size != 0) i = (i + 1) & mask;
    entries_[i] = e;
  }
}

void WordCache::encode(std::string_view word, std::vector<TokenId>& out) {
  if (word.size() > kLongestKey) return model_->encode(word, out);
  if ((used_ + 1) * 2 > entries_.size() && used_ < kMostWords) grow();
  const uint64_t hash = hash_bytes(word.data(), word.size());
  const size_t mask = entries_.size() - 1;
  size_t i = hash & mask;
  for (size_t probe = 0; probe < kMostProbes; ++probe, i = (i + 1) & mask) {
    Entry& e = entries_[i];
    if (e.key_size == 0) {
      const size_t start = out.size();
      model_->encode(word, out);
      if (used_ >= kMostWords) return;
      e.hash = hash;
      e.key_start = static_cast<uint32_t>(keys_.size());
      e.key_size = static_cast<uint16_t>(word.size());
      e.ids_start = static_cast<uint32_t>(ids_.size());
      e.id_count = static_cast<uint16_t>(out.size() - start);
      keys_ += word;
      ids_.insert(ids_.end(), out.begin() + static_cast<std::ptrdiff_t>(start), out.end());
      ++used_;
      return;
    }
    if (e.hash == hash && std::string_view(keys_).substr(e.key_start, e.key_size) == word) {
      const TokenId* ids = ids_.data() + e.ids_start;
      for (uint16_t k = 0; k < e.id_count; ++k) out.push_back(ids[k]);
      return;
    }
  }
  model_->encode(word, out);
}

}  // namespace strata
