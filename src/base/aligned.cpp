#include "base/aligned.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/error.h"

namespace strata {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes, HugePages huge_pages) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool huge = huge_pages == HugePages::advise && bytes >= kHugePage;
  const size_t alignment = huge ? kHugePage : kLine;
  if (bytes <= SIZE_MAX - alignment)
    memory_.reset(std::aligned_alloc(alignment, round_up(bytes, alignment)));
  if (!memory_) fail(ErrorCode::resource_exhausted, "memory: {} bytes are not to be had", bytes);
  // Advice only: without it the pages are small and everything still works.
  if (huge) madvise(memory_.get(), round_up(bytes, alignment), MADV_HUGEPAGE);
}

void AlignedBuffer::Free::operator()(void* p) const { std::free(p); }

}  // namespace strata
