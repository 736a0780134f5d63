#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "base/cpu.h"
#include "base/json.h"
#include "base/paths.h"
#include "base/thread_pool.h"
#include "bench/roofline.h"
#include "cli/command.h"
#include "engine/memory_budget.h"
#include "kernels/kernel_table.h"
#include "model/catalogue.h"

namespace strata::cli {
namespace {

struct DoctorFlags {
  GlobalOptions global;
  int threads = 0;
};

std::string cpu_name() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

double load_average() {
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

// What a person would want to know before believing the figures.
std::vector<std::string> find_odd(int threads, uint64_t free_bytes, double load) {
  std::vector<std::string> odd;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const CpuFeatures features = detect_cpu_features();
  if (!features.avx2 || !features.fma || !features.f16c)
    odd.push_back("this CPU has no AVX2, FMA or F16C: the scalar kernels are many times slower");
  else if (isa_level() == IsaLevel::scalar)
    odd.push_back("STRATA_ISA asks for the scalar kernels although this CPU has AVX2");
  if (!isa_level_has_run(isa_level()))
    odd.push_back(fmt::format(
        "the kernels of level {} were not tested on such a processor before the release: "
        "STRATA_ISA=avx2 chooses others, and a report of a run is welcome (docs/kernels.md)",
        isa_level_name(isa_level())));
  if (threads < cores)
    odd.push_back(fmt::format(
        "{} of {} cores are usable: an affinity mask or a cgroup's CPU quota holds the rest back",
        threads, cores));
  if (load > 0.5 * cores)
    odd.push_back(fmt::format(
        "the load average is {:.1f}: other programs run, the figures here are too low", load));
  if (free_bytes < uint64_t{1} << 30)
    odd.push_back(fmt::format("only {} MiB of memory are free", free_bytes >> 20));
  return odd;
}

int doctor_command(const DoctorFlags& flags) {
  const int threads = flags.threads > 0 ? flags.threads : usable_threads();
  const uint64_t free_bytes = available_memory();
  const double load = load_average();  // before the measurement itself raises it
  ThreadPool pool(threads);
  if (!flags.global.quiet && isatty(STDERR_FILENO) == 1) fmt::print(stderr, "measuring...\r");
  ProbeOptions probe;
  probe.check = stop_if_interrupted;
  const MachineLimits limits = probe_machine({&kernel_table(isa_level()), &pool}, probe).best();
  const std::vector<std::string> odd = find_odd(usable_threads(), free_bytes, load);
  std::string levels;
  for (IsaLevel level : available_isa_levels(detect_cpu_features()))
    levels += (levels.empty() ? "" : " ") + std::string(isa_level_name(level));
  if (flags.global.json) {
    OrderedJson out;
    out["cpu"] = cpu_name();
    out["isa"] = isa_level_name(isa_level());
    out["isa_available"] = levels;
    out["cores"] = std::thread::hardware_concurrency();
    out["threads"] = threads;
    out["memory_free_bytes"] = free_bytes;
    out["load_average"] = load;
    out["limits"] = {{"read_gb_s", limits.read_gb_s},
                     {"fp32_gflop_s", limits.fp32_gflop_s},
                     {"int8_gop_s", limits.int8_gop_s()}};
    out["models"] = OrderedJson::array();
    for (const CatalogueEntry& entry : catalogue())
      out["models"].push_back({{"name", entry.name}, {"fits", entry.bytes * 5 / 4 < free_bytes}});
    out["odd"] = odd;
    print_json(to_json_text(out));
    return kDone;
  }
  fmt::print("cpu           {}\n", cpu_name());
  fmt::print("kernels       {} (available: {})\n", isa_level_name(isa_level()), levels);
  fmt::print("threads       {} of {} cores\n", threads, std::thread::hardware_concurrency());
  fmt::print("memory        {:.1f} GiB free\n", static_cast<double>(free_bytes) / (1 << 30));
  fmt::print("read          {:.1f} GB/s\n", limits.read_gb_s);
  fmt::print("fp32          {:.0f} GFLOP/s\n", limits.fp32_gflop_s);
  fmt::print("int8          {:.0f} GOP/s\n\n", limits.int8_gop_s());
  for (const CatalogueEntry& entry : catalogue()) {
    // A generated token reads every weight once: what memory allows is a bound for its speed.
    const double bound = limits.read_gb_s * 1e9 / static_cast<double>(entry.bytes);
    fmt::print("{:<20} {}, at most about {:.0f} tokens/s alone\n", entry.name,
               entry.bytes * 5 / 4 < free_bytes ? "fits" : "does not fit", bound);
  }
  fmt::print("\n");
  for (const std::string& line : odd) fmt::print("odd: {}\n", line);
  if (odd.empty()) fmt::print("nothing odd found\n");
  return kDone;
}

}  // namespace

void add_doctor(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<DoctorFlags>();
  CLI::App& command =
      *app.add_subcommand("doctor", "what this machine can do, what fits, and what is odd");
  command.footer("Takes a few seconds and a GiB of memory.\nExample: strata doctor --json");
  command.add_option("--threads", flags->threads, "threads to measure with; 0: every usable core")
      ->check(CLI::Range(0, 1024));
  add_common_options(command, flags->global);
  command.callback([flags, &run] { run = [flags] { return doctor_command(*flags); }; });
}

}  // namespace strata::cli
