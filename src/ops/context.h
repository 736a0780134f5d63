#pragma once

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"

namespace strata {

// What every op needs beside its operands: which kernels, which threads. Two pointers, passed by
// value; the executor that owns the pool makes it once.
struct OpContext {
  const KernelTable* kernels = nullptr;
  ThreadPool* pool = nullptr;
};

}  // namespace strata
