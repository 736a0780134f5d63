#pragma once

#include <cstdint>

namespace strata {

enum class DType : uint8_t { none, f32, f64, f16, bf16 };

// A view of rows of activations, [rows, columns], row-major with a stride. It owns nothing: memory
// belongs to the arena of the executor that made it and lives until that executor's next begin().
// data == nullptr in executors that only plan. `id` is the executor's own handle for what it keeps
// beside the values (a quantised twin, a tape entry).
struct Tensor {
  DType dtype = DType::none;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;  // elements from row to row
  void* data = nullptr;
  int32_t id = -1;

  template <typename T>
  T* row(int64_t r) const {
    return static_cast<T*>(data) + r * stride;
  }
};

}  // namespace strata
