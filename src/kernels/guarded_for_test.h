#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace strata {

enum class Guard : uint8_t { before, after };

// Floats that begin right after (Guard::before) or end right before (Guard::after) a page that may
// not be touched: a kernel that strays past its operand by one element ends the test program.
class Guarded {
 public:
  Guarded(int64_t count, Guard side) : count_(static_cast<size_t>(count)) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = count_ * sizeof(float);
    const size_t inner = (bytes + page - 1) / page * page;
    bytes_ = inner + 2 * page;
    memory_ = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    char* first = static_cast<char*>(memory_) + page;
    if (inner > 0) mprotect(first, inner, PROT_READ | PROT_WRITE);
    data_ = reinterpret_cast<float*>(side == Guard::before ? first : first + inner - bytes);
  }
  Guarded(const std::vector<float>& values, Guard side)
      : Guarded(static_cast<int64_t>(values.size()), side) {
    if (!values.empty()) std::memcpy(data_, values.data(), values.size() * sizeof(float));
  }
  ~Guarded() { munmap(memory_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  float* data() const { return data_; }
  std::vector<float> values() const { return {data_, data_ + count_}; }

 private:
  size_t count_;
  size_t bytes_ = 0;
  void* memory_ = nullptr;
  float* data_ = nullptr;
};

}  // namespace strata
