#include "engine/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/serve_exec.h"

namespace strata {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kMostKvByDefault = uint64_t{4} << 30;
// For activations, logits, tokenizer and the program itself.
constexpr uint64_t kWorkingMemory = 100 * kMiB;

uint64_t number_in_file(const char* path, uint64_t otherwise) {
  std::ifstream stream(path);
  uint64_t value = 0;
  return stream >> value ? value : otherwise;  // cgroup's "max" is no number
}

uint64_t mem_available() {
  std::ifstream stream("/proc/meminfo");
  std::string key;
  uint64_t kilobytes = 0;
  while (stream >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    stream.ignore(64, '\n');
  }
  return std::numeric_limits<uint64_t>::max();
}

// The value of `key` in a file of "key value" lines; 0: it is not there.
uint64_t number_of_key(const char* path, std::string_view key) {
  std::ifstream stream(path);
  std::string name;
  uint64_t value = 0;
  while (stream >> name >> value)
    if (name == key) return value;
  return 0;
}

// What a cgroup (v2, then v1) still allows; more than any machine has where there is no limit.
// Pages of files that nobody has used lately count as used, but the kernel gives them back on
// demand.
uint64_t cgroup_room() {
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  struct Files {
    const char* limit;
    const char* used;
    const char* details;
    const char* reclaimable;
  };
  for (const Files& f : {Files{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                               "/sys/fs/cgroup/memory.stat", "inactive_file"},
                         Files{"/sys/fs/cgroup/memory/memory.limit_in_bytes",
                               "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                               "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file"}}) {
    const uint64_t limit = number_in_file(f.limit, kNone);
    if (limit == kNone) continue;
    const uint64_t used = number_in_file(f.used, 0);
    const uint64_t held = used - std::min(used, number_of_key(f.details, f.reclaimable));
    return limit > held ? limit - held : 0;
  }
  return kNone;
}

uint64_t mib(uint64_t bytes) { return (bytes + kMiB - 1) / kMiB; }

}  // namespace

uint64_t available_memory() { return std::min(mem_available(), cgroup_room()); }

MemoryBudget plan_engine_memory(const Model& model, const EngineOptions& options) {
  MemoryBudget budget;
  budget.weight_bytes = model.store->file_bytes();
  budget.context = wanted_context(model, options.context, options.kv_policy);
  const KvShape shape = kv_shape(model, options.kv_type, options.kv_policy, options.page_tokens);
  const auto pool_for = [&](int64_t tokens, int64_t step_rows) {
    uint64_t bytes = 0;
    for (size_t g = 0; g < shape.groups.size(); ++g)
      bytes += static_cast<uint64_t>(shape.page_bytes(g)) *
               static_cast<uint64_t>(shape.most_pages(g, tokens, step_rows));
    return bytes;
  };
  const uint64_t available = available_memory();
  const uint64_t fixed = budget.weight_bytes + kWorkingMemory;
  const uint64_t smallest = pool_for(options.batch_tokens, options.batch_tokens);
  if (fixed + smallest > available)
    fail(
        ErrorCode::resource_exhausted,
        "{}: {} MiB of memory are free, {} MiB are needed ({} for the weights, {} for the smallest "
        "KV cache, {} to work in): {} MiB are missing; a file of at most {} MiB would fit",
        model.path.string(), available / kMiB, mib(fixed + smallest), mib(budget.weight_bytes),
        mib(smallest), mib(kWorkingMemory), mib(fixed + smallest - available),
        available > kWorkingMemory + smallest ? (available - kWorkingMemory - smallest) / kMiB : 0);
  if (options.kv_memory == 0) {
    const uint64_t useful =
        static_cast<uint64_t>(options.max_running) * pool_for(budget.context, options.batch_tokens);
    budget.kv_bytes =
        std::max(smallest, std::min({(available - fixed) / 4, kMostKvByDefault, useful}));
    return budget;
  }
  budget.kv_bytes = options.kv_memory;
  if (fixed + budget.kv_bytes > available)
    fail(ErrorCode::resource_exhausted,
         "--kv-memory: {} MiB asked; {} MiB are free, of which weights and working memory take {}: "
         "{} MiB are missing; at most {} MiB would fit",
         mib(budget.kv_bytes), available / kMiB, mib(fixed),
         mib(fixed + budget.kv_bytes - available), (available - fixed) / kMiB);
  return budget;
}

}  // namespace strata
