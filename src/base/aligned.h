#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace strata {

enum class HugePages : uint8_t { no, advise };

// Owned memory on a 64-byte boundary (a cache line; the widest vector), uninitialised. Large ones
// may ask for 2 MB pages: streaming through weights otherwise spends its time in the page tables.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Throws Error{resource_exhausted} where there is no memory. 0 bytes: data() is nullptr.
  explicit AlignedBuffer(size_t bytes, HugePages huge_pages = HugePages::no);

  void* data() const { return memory_.get(); }
  size_t size() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }

 private:
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> memory_;
  size_t bytes_ = 0;
};

}  // namespace strata
