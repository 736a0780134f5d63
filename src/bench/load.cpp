#include "bench/load.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "bench/timing.h"

extern "C" char** environ;

namespace strata {
namespace {

// A file descriptor that is closed in the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

pid_t start(const std::vector<std::string>& argv, int stdout_fd) {
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, stdout_fd, STDOUT_FILENO);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, argv[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    fail(ErrorCode::internal, "bench: {} cannot be started: {}", argv[0], std::strerror(error));
  return pid;
}

// Reads to the end; the time of the first byte, or a negative number when there was none.
double drain(int fd) {
  double first = -1;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return first;
    if (first < 0) first = now_seconds();
  }
}

double file_bytes(const Engine& engine) {
  return static_cast<double>(engine.model().store->file_bytes());
}

Measurement seconds_measurement(const char* what, const std::string& model, double read_bytes,
                                const EngineRunOptions& options) {
  Measurement m;
  m.what = what;
  m.model = resolve_model_path(model).stem().string();
  m.params["kv_type"] = kv_type_name(options.kv_type);
  if (options.page_tokens != kDefaultPageTokens) m.params["page_size"] = options.page_tokens;
  m.unit = "s";
  m.work.read_bytes = read_bytes;
  return m;
}

}  // namespace

double seconds_to_first_byte(const std::vector<std::string>& argv) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    fail(ErrorCode::internal, "bench: no pipe for {}: {}", argv[0], std::strerror(errno));
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  const double begin = now_seconds();
  const pid_t pid = start(argv, write_end.get());
  write_end.reset();
  const double first = drain(read_end.get());
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail(ErrorCode::internal, "bench: {} ended with status {}", argv[0],
         WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  if (first < 0) fail(ErrorCode::internal, "bench: {} wrote nothing", argv[0]);
  return first - begin;
}

std::filesystem::path own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

Measurement measure_load(const std::string& model, const EngineRunOptions& options) {
  double bytes = 0;
  std::vector<double> seconds;
  for (int r = -1; r < options.repeats; ++r) {  // the first warms up
    if (options.check) options.check();
    const double begin = now_seconds();
    const auto engine = load_for_bench(model, options, 0, 1);
    if (r >= 0) seconds.push_back(now_seconds() - begin);
    bytes = file_bytes(*engine);
  }
  Measurement m = seconds_measurement("load", model, bytes, options);
  m.values = std::move(seconds);
  return m;
}

Measurement measure_cold_start(const std::filesystem::path& program, const std::string& model,
                               const EngineRunOptions& options) {
  std::vector<std::string> argv = {program.string(),
                                   "run",
                                   model,
                                   "--prompt",
                                   "Hello",
                                   "--max-tokens",
                                   "1",
                                   "--quiet",
                                   "--threads",
                                   std::to_string(options.threads),
                                   "--kv-type",
                                   std::string(kv_type_name(options.kv_type)),
                                   "--page-size",
                                   std::to_string(options.page_tokens)};
  if (options.activations != Activations::int8) {
    argv.emplace_back("--activations");
    argv.emplace_back(activations_name(options.activations));
  }
  if (options.strict) argv.emplace_back("--strict");
  std::vector<double> seconds;
  for (int r = -1; r < options.repeats; ++r) {
    if (options.check) options.check();
    const double taken = seconds_to_first_byte(argv);
    if (r >= 0) seconds.push_back(taken);
  }
  const auto bytes =
      static_cast<double>(load_model(resolve_model_path(model))->store->file_bytes());
  Measurement m = seconds_measurement("cold_start", model, bytes, options);
  m.values = std::move(seconds);
  return m;
}

}  // namespace strata
