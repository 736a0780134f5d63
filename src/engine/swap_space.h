#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/scratch_file.h"
#include "engine/byte_ranges.h"
#include "engine/kv_pool.h"

namespace strata {

// Where the keys and values of a sequence that gave up its pages lie in the file.
struct SwappedPages {
  int64_t begin = 0, bytes = 0;
  int64_t tokens = 0;  // length of the sequence
};

// A file for the pages of preempted sequences: their raw bytes, so that what is read back is what
// was there, whatever the KV type. The file has no name, never grows beyond its limit, and is cut
// to nothing when nobody is in it.
//
// How fast it is, is measured: once at the start, then with every transfer. After an error nothing
// is written for kPauseSeconds; sequences are then computed again.
//
// For the engine's thread; a transfer blocks it, and its time is part of the choice whether to
// swap.
class SwapSpace {
 public:
  static constexpr double kPauseSeconds = 10;

  // Throws as ScratchFile.
  SwapSpace(const std::string& folder, int64_t bytes);
  // Over an open file, which it closes.
  SwapSpace(int file, std::string place, int64_t bytes);

  // Seconds that writing the sequence and reading it back will take; nullopt: it cannot be written
  // (no room, or an error lately).
  std::optional<double> seconds_to_swap(const KvPool& pool, int32_t cache) const;
  double seconds_to_read(int64_t bytes) const {
    return static_cast<double>(bytes) * read_seconds_per_byte_;
  }

  // Writes the pages that the sequence's next token sees. nullopt, with a warning: it failed.
  [[nodiscard]] std::optional<SwappedPages> write(const KvPool& pool, int32_t cache);
  // Reads the pages back into a sequence that has the first `have` positions and was extended
  // (KvPool::extend) to all. false, with a warning, when it failed: pages are in disorder then.
  [[nodiscard]] bool read(KvPool& pool, int32_t cache, int64_t have, const SwappedPages& from);
  void give_back(const SwappedPages& pages);

  int64_t used_bytes() const { return ranges_.used(); }
  int64_t written_bytes() const { return written_; }  // in all
  int64_t read_bytes() const { return read_; }

 private:
  using Clock = std::chrono::steady_clock;

  void measure();
  void pause(const char* operation);

  ScratchFile file_;
  ByteRanges ranges_;
  double write_seconds_per_byte_ = 0, read_seconds_per_byte_ = 0;
  Clock::time_point paused_until_;
  int64_t written_ = 0, read_ = 0;
};

}  // namespace strata
