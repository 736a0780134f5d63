#include "engine/swap_space.h"

#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace strata {
namespace {

// Enough to tell a disk from memory, and little enough to be over in milliseconds.
constexpr size_t kProbeBytes = size_t{4} << 20;
// The share of a new measurement in what is believed.
constexpr double kNewShare = 0.25;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

SwapSpace::SwapSpace(const std::string& folder, int64_t bytes) : file_(folder), ranges_(bytes) {
  measure();
  if (paused_until_ == Clock::time_point())
    log_info("swap space: {} MiB in {}, writes {:.0f} MB/s, reads {:.0f} MB/s", bytes >> 20,
             file_.place(), 1e-6 / write_seconds_per_byte_, 1e-6 / read_seconds_per_byte_);
}

SwapSpace::SwapSpace(int file, std::string place, int64_t bytes)
    : file_(file, std::move(place)), ranges_(bytes) {
  measure();
}

void SwapSpace::measure() {
  std::vector<std::byte> probe(kProbeBytes);
  for (size_t i = 0; i < probe.size(); i += 64) probe[i] = static_cast<std::byte>(i / 64);
  auto begin = Clock::now();
  if (!file_.write(0, probe)) return pause("writing");
  write_seconds_per_byte_ = seconds_since(begin) / static_cast<double>(kProbeBytes);
  begin = Clock::now();
  if (!file_.read(0, probe)) return pause("reading");
  read_seconds_per_byte_ = seconds_since(begin) / static_cast<double>(kProbeBytes);
  if (ranges_.used() == 0) file_.clear();
}

void SwapSpace::pause(const char* operation) {
  paused_until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(kPauseSeconds));
  log_warning("swap space: {} {} failed: {}; preempted answers are computed again meanwhile",
              operation, file_.place(), file_.fault());
}

std::optional<double> SwapSpace::seconds_to_swap(const KvPool& pool, int32_t cache) const {
  const int64_t bytes = pool.seen_bytes(cache);
  if (Clock::now() < paused_until_ || bytes == 0 || ranges_.used() + bytes > ranges_.size())
    return std::nullopt;
  return static_cast<double>(bytes) * (write_seconds_per_byte_ + read_seconds_per_byte_);
}

std::optional<SwappedPages> SwapSpace::write(const KvPool& pool, int32_t cache) {
  SwappedPages out;
  out.tokens = pool.length(cache);
  out.bytes = pool.seen_bytes(cache);
  const std::optional<int64_t> begin = ranges_.take(out.bytes);
  if (!begin) return std::nullopt;  // there is room, but in pieces
  out.begin = *begin;
  const auto start = Clock::now();
  int64_t at = out.begin;
  bool done = true;
  pool.for_each_seen_page(cache, [&](size_t group, int64_t, int32_t page) {
    const std::span<const std::byte> bytes = pool.page_memory(group, page);
    done = done && file_.write(at, bytes);
    at += static_cast<int64_t>(bytes.size());
  });
  if (!done) {
    pause("writing");
    give_back(out);
    return std::nullopt;
  }
  const double each = seconds_since(start) / static_cast<double>(out.bytes);
  write_seconds_per_byte_ += kNewShare * (each - write_seconds_per_byte_);
  written_ += out.bytes;
  return out;
}

bool SwapSpace::read(KvPool& pool, int32_t cache, int64_t have, const SwappedPages& from) {
  STRATA_ASSERT(pool.length(cache) == from.tokens && pool.seen_bytes(cache) == from.bytes);
  const auto start = Clock::now();
  int64_t at = from.begin, bytes_read = 0;
  bool done = true;
  pool.for_each_seen_page(cache, [&](size_t group, int64_t index, int32_t page) {
    const std::span<std::byte> bytes = pool.page_memory(group, page);
    // Whole pages of what it has already may be shared; a last partial one is its own.
    if (index >= have / pool.shape().page_tokens) {
      done = done && file_.read(at, bytes);
      bytes_read += static_cast<int64_t>(bytes.size());
    }
    at += static_cast<int64_t>(bytes.size());
  });
  if (!done) {
    pause("reading");
    return false;
  }
  if (bytes_read > 0) {
    const double each = seconds_since(start) / static_cast<double>(bytes_read);
    read_seconds_per_byte_ += kNewShare * (each - read_seconds_per_byte_);
  }
  read_ += bytes_read;
  return true;
}

void SwapSpace::give_back(const SwappedPages& pages) {
  ranges_.give_back(pages.begin, pages.bytes);
  if (ranges_.used() == 0) file_.clear();
}

}  // namespace strata
