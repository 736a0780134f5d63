#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/thread_pool.h"
#include "bench/result.h"
#include "bench/roofline.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "kernels/kernel_table.h"
#include "ops/context.h"

namespace strata::cli {

// The options that subjects of `strata bench` share; each declares those it reads.
struct BenchRunFlags {
  GlobalOptions global;
  EngineFlags engine;  // threads, kv_type, activations, strict
  std::string model;
  std::string png;
  double window_seconds = ProbeOptions{}.window_seconds;
  int repeats = 5;
};
void add_bench_options(CLI::App& command, BenchRunFlags& flags);
void add_threads(CLI::App& command, BenchRunFlags& flags);
void add_repeats(CLI::App& command, BenchRunFlags& flags);
void add_model(CLI::App& command, BenchRunFlags& flags);
void add_size(CLI::App& command, const char* name, int64_t& value, const char* what);

// What is being done, on stderr; only on a terminal.
class Status {
 public:
  explicit Status(bool quiet);
  ~Status() { say(""); }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  void say(const std::string& what) const;

 private:
  bool visible_;
};

// One run of the command: limits, measurements, limits again, report.
class Bench {
 public:
  explicit Bench(const BenchRunFlags& flags);

  int threads() const { return threads_; }
  const Status& status() const { return status_; }

  // fn(OpContext) on a pool of its own.
  template <typename Fn>
  auto with_pool(Fn fn) const {
    ThreadPool pool(threads_);
    return fn(OpContext{&kernel_table(isa_level()), &pool});
  }

  ProbeSamples probe() const;

  // What a subject does with the report before it is printed; the text follows the table.
  using Finish = std::function<std::string(BenchReport&)>;
  // Prints the results and draws them where asked for. model_hash: empty without a model.
  int report(const std::string& model_hash, const std::vector<Measurement>& measurements,
             const MachineLimits& limits, const Finish& finish_report = {}) const;

  // Measures between two probes; the limits are the larger ones.
  template <typename Measure>
  int run(Measure measure, const Finish& finish_report = {}) const {
    const MachineLimits before = probe().best();
    std::string model_hash;
    const std::vector<Measurement> measurements = measure(model_hash);
    return report(model_hash, measurements, larger_of(before, probe().best()), finish_report);
  }

 private:
  const BenchRunFlags& flags_;
  int threads_;
  Status status_;
};

}  // namespace strata::cli
