#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace strata {
namespace {

// The mappings the signal handler knows. Only atomics: the handler may run at any instruction of
// any thread. A slot is claimed by `used`, then filled: `end` last, as end == 0 matches nothing.
struct Slot {
  std::atomic<bool> used{false};
  std::atomic<bool> damaged{false};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
};
static_assert(std::atomic<bool>::is_always_lock_free &&
              std::atomic<uintptr_t>::is_always_lock_free);

constexpr int kSlots = 4096;
std::array<Slot, kSlots> g_slots;
uintptr_t g_page_size = 0;  // set before the handler is installed
struct sigaction g_former_action;

// Puts zeros where the page of `address` is missing. False: the address is not ours.
bool replace_missing_page(uintptr_t address) {
  for (Slot& slot : g_slots) {
    const uintptr_t end = slot.end.load(std::memory_order_acquire);
    if (address >= end || address < slot.begin.load(std::memory_order_acquire)) continue;
    slot.damaged.store(true, std::memory_order_release);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel gives the address as a number
    void* page = reinterpret_cast<void*>(address & ~(g_page_size - 1));
    return mmap(page, g_page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           page;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  // si_code <= 0: sent by kill() or the like; then si_addr means nothing.
  const bool handled =
      info->si_code > 0 && replace_missing_page(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = saved_errno;
  if (handled) return;
  if (g_former_action.sa_flags & SA_SIGINFO) {
    g_former_action.sa_sigaction(signal, info, context);
  } else if (g_former_action.sa_handler != SIG_DFL && g_former_action.sa_handler != SIG_IGN) {
    g_former_action.sa_handler(signal);
  } else if (g_former_action.sa_handler == SIG_DFL || info->si_code > 0) {
    // The default action, once this handler has returned and the signal is unblocked.
    std::signal(signal, SIG_DFL);
    raise(signal);
  }
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    g_page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &g_former_action);
  });
}

int claim_slot(const void* data, size_t size) {
  for (int i = 0; i < kSlots; ++i) {
    Slot& slot = g_slots[static_cast<size_t>(i)];
    if (slot.used.exchange(true)) continue;
    const auto begin = reinterpret_cast<uintptr_t>(data);
    slot.damaged.store(false);
    slot.begin.store(begin);
    slot.end.store(begin + (size + g_page_size - 1) / g_page_size * g_page_size);
    return i;
  }
  return -1;
}

void free_slot(int index) {
  Slot& slot = g_slots[static_cast<size_t>(index)];
  slot.end.store(0);
  slot.begin.store(0);
  slot.used.store(false);
}

std::string errno_text() { return std::strerror(errno); }

// Closes unless taken over; the constructor below has several ways to fail.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  int take() { return std::exchange(value_, -1); }

 private:
  int value_;
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path.string()) {
  install_handler();
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) fail(ErrorCode::not_found, "{}: no such file", path_);
    fail(ErrorCode::invalid_argument, "{}: cannot open: {}", path_, errno_text());
  }
  struct stat status = {};
  if (fstat(file.get(), &status) != 0)
    fail(ErrorCode::invalid_argument, "{}: cannot read its size: {}", path_, errno_text());
  if (S_ISDIR(status.st_mode))
    fail(ErrorCode::invalid_argument, "{}: is a folder, wanted a file", path_);
  if (!S_ISREG(status.st_mode))
    fail(ErrorCode::invalid_argument, "{}: is not a regular file", path_);
  const auto size = static_cast<size_t>(status.st_size);
  if (size > 0) {
    void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
    if (data == MAP_FAILED)
      fail(ErrorCode::resource_exhausted, "{}: cannot map {} bytes: {}", path_, size, errno_text());
    slot_ = claim_slot(data, size);
    if (slot_ < 0) {
      munmap(data, size);
      fail(ErrorCode::resource_exhausted, "{}: {} files are mapped already", path_, kSlots);
    }
    data_ = static_cast<const std::byte*>(data);
    size_ = size;
  }
  descriptor_ = file.take();
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    free_slot(slot_);
    munmap(const_cast<std::byte*>(data_), size_);
  }
  close(descriptor_);
}

bool MappedFile::damaged() const {
  if (data_ == nullptr) return false;
  if (g_slots[static_cast<size_t>(slot_)].damaged.load(std::memory_order_acquire)) return true;
  struct stat status = {};
  return fstat(descriptor_, &status) != 0 || static_cast<size_t>(status.st_size) < size_;
}

void MappedFile::check_intact() const {
  if (!damaged()) return;
  fail(ErrorCode::data_corrupt,
       "{}: was cut short or became unreadable while in use (it had {} bytes); load it again",
       path_, size_);
}

void MappedFile::release_pages(std::span<const std::byte> part) const {
  if (part.empty()) return;
  STRATA_ASSERT(part.data() >= data_ && part.data() + part.size() <= data_ + size_);
  const size_t into_page = reinterpret_cast<uintptr_t>(part.data()) & (g_page_size - 1);
  // Only advice: when it fails the pages stay, which is correct too.
  madvise(const_cast<std::byte*>(part.data()) - into_page, into_page + part.size(), MADV_DONTNEED);
}

}  // namespace strata
