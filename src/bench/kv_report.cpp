#include "bench/kv_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/replace_file.h"
#include "bench/statistics.h"
#include "bench/work.h"
#include "report/line_chart.h"

namespace strata {
namespace {

constexpr int64_t kStepRows = 512;  // of recomputing
constexpr double kMiB = 1 << 20;

double median(const KvPoint& point) { return summarize(point.seconds).median; }

Measurement measurement(const KvReport& report, const char* what, OrderedJson params,
                        const KvPoint& point) {
  Measurement m;
  m.what = what;
  m.model = report.model;
  m.params = std::move(params);
  m.params["length"] = point.length;
  m.params["kv_type"] = kv_type_name(report.kv_type);
  m.unit = "s";
  m.values = point.seconds;
  return m;
}

Line line_of(const std::string& label, const std::vector<KvPoint>& points, double scale,
             double (*value)(const KvPoint&)) {
  Line line{label, {}, {}};
  for (const KvPoint& p : points) line.add(static_cast<double>(p.length), scale * value(p));
  return line;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  ReplaceFile file(path);
  file.write(std::string_view(text));
  file.commit();
}

std::string csv_of(const KvReport& report) {
  std::string csv =
      "method,policy,length,seconds_median,seconds_mad,repeats,held_bytes,resident_bytes,"
      "formula_bytes\n";
  const auto rows = [&](const char* method, const std::string& policy,
                        const std::vector<KvPoint>& points) {
    for (const KvPoint& p : points) {
      const Summary s = summarize(p.seconds);
      csv += fmt::format("{},\"{}\",{},{:.9f},{:.9f},{},{},{},{}\n", method, policy, p.length,
                         s.median, s.deviation, p.seconds.size(), p.held_bytes, p.resident_bytes,
                         p.formula_bytes);
    }
  };
  rows("naive", "full", report.naive);
  rows("cached", "full", report.cached);
  for (const KvReport::OfPolicy& p : report.policies)
    rows("policy", kv_policy_name(p.policy), p.points);
  return csv;
}

}  // namespace

std::vector<Measurement> kv_measurements(const KvReport& report, const Model& model) {
  std::vector<Measurement> all;
  const auto token = [&](Measurement m, const KvPoint& point, const KvPolicy& policy) {
    m.work = model_pass(model, 1, 1);
    m.work.read_bytes += kv_read_bytes(model, report.kv_type, point.length - 1, policy);
    all.push_back(std::move(m));
  };
  for (const KvPoint& p : report.naive) {
    Measurement m = measurement(report, "kv_naive", OrderedJson::object(), p);
    for (int64_t begin = 0; begin < p.length; begin += kStepRows) {
      const int64_t end = std::min(p.length, begin + kStepRows);
      m.work += model_pass(model, end - begin, 1);
    }
    all.push_back(std::move(m));
  }
  for (const KvPoint& p : report.cached)
    token(measurement(report, "kv_cached", OrderedJson::object(), p), p, {});
  for (const KvReport::OfPolicy& of : report.policies)
    for (const KvPoint& p : of.points)
      token(measurement(report, "kv_policy", {{"policy", kv_policy_name(of.policy)}}, p), p,
            of.policy);
  return all;
}

OrderedJson kv_details(const KvReport& report) {
  OrderedJson out;
  const KvEquality& e = report.equality;
  out["equality"] = {{"tokens", e.tokens},
                     {"equal_tokens", e.equal_tokens},
                     {"equal_logits", e.equal_logits},
                     {"naive_seconds", e.naive_seconds},
                     {"cached_seconds", e.cached_seconds}};
  if (!report.naive.empty()) {
    const double naive = estimate_total(report.naive), cached = estimate_total(report.cached);
    out["estimate"] = {
        {"estimated", true},
        {"how", "times of one token at the sampled lengths, interpolated and added"},
        {"tokens", report.naive.back().length},
        {"naive_seconds", naive},
        {"cached_seconds", cached},
        {"speed_up", naive / cached},
        {"speed_up_of_last_token", median(report.naive.back()) / median(report.cached.back())}};
  }
  out["memory"] = OrderedJson::array();
  for (const KvReport::OfPolicy& of : report.policies)
    for (const KvPoint& p : of.points)
      out["memory"].push_back({{"policy", kv_policy_name(of.policy)},
                               {"length", p.length},
                               {"held_bytes", p.held_bytes},
                               {"resident_bytes", p.resident_bytes},
                               {"formula_bytes", p.formula_bytes}});
  return out;
}

std::string kv_text(const KvReport& report) {
  const KvEquality& e = report.equality;
  std::string out =
      fmt::format("cached and recomputed: {} of {} tokens equal, the logits of {} bit for bit\n",
                  e.equal_tokens, e.tokens, e.equal_logits);
  if (!report.naive.empty()) {
    const double naive = estimate_total(report.naive), cached = estimate_total(report.cached);
    out += fmt::format(
        "generating {} tokens: {:.1f} s recomputed, {:.1f} s cached, {:.0f} times as fast "
        "(estimated: the times of one token at the sampled lengths, interpolated and added); the "
        "last token: {:.0f} times\n",
        report.naive.back().length, naive, cached, naive / cached,
        median(report.naive.back()) / median(report.cached.back()));
  }
  for (const KvReport::OfPolicy& of : report.policies) {
    if (of.points.empty()) continue;
    const KvPoint& p = of.points.back();
    out += fmt::format(
        "{} after {} tokens: {:.1f} MiB held, {:.1f} MiB resident, {:.1f} MiB by the formula, "
        "{:.2f} ms a token\n",
        kv_policy_name(of.policy), p.length, static_cast<double>(p.held_bytes) / kMiB,
        static_cast<double>(p.resident_bytes) / kMiB, static_cast<double>(p.formula_bytes) / kMiB,
        median(p) * 1e3);
  }
  return out;
}

void write_kv_report(const std::filesystem::path& folder, const std::string& json,
                     const KvReport& report) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail(ErrorCode::invalid_argument, "{}: cannot be made: {}", folder.string(), error.message());
  write_text(folder / "kv_benchmark.json", json + "\n");
  write_text(folder / "profiling_data.csv", csv_of(report));

  const auto held = [](const KvPoint& p) { return static_cast<double>(p.held_bytes); };
  const auto resident = [](const KvPoint& p) { return static_cast<double>(p.resident_bytes); };
  const auto formula = [](const KvPoint& p) { return static_cast<double>(p.formula_bytes); };
  LineChart speed;
  speed.title = "Time of one token: recomputed and cached";
  if (!report.naive.empty())
    speed.subtitle = fmt::format(
        "{}; {} tokens in all: {:.0f} times as fast (estimated from the points)", report.model,
        report.naive.back().length, estimate_total(report.naive) / estimate_total(report.cached));
  speed.x_label = "tokens so far";
  speed.y_label = "ms";
  speed.log_x = speed.log_y = true;
  speed.lines = {line_of("recomputed", report.naive, 1e3, median),
                 line_of("cached", report.cached, 1e3, median)};
  write_line_chart(speed, folder / "speed_comparison.png");

  LineChart memory;
  memory.title = "Keys and values of one sequence";
  memory.subtitle = report.model + ", " + std::string(kv_type_name(report.kv_type)) +
                    "; formula: 2 x layers x Hk x Dh x bytes for each token kept";
  memory.x_label = "tokens";
  memory.y_label = "MiB";
  memory.y_from_zero = true;
  LineChart windows = memory;
  windows.title = "Time of one token by what is kept";
  windows.subtitle = report.model;
  windows.y_label = "ms";
  for (const KvReport::OfPolicy& of : report.policies) {
    const std::string name = kv_policy_name(of.policy);
    // Six lines a chart: the formula stands beside the full cache, where it says most.
    if (of.policy.is_full()) {
      memory.lines.push_back(line_of("formula, full", of.points, 1 / kMiB, formula));
      memory.lines.push_back(line_of("resident, full", of.points, 1 / kMiB, resident));
    }
    if (memory.lines.size() < 6)
      memory.lines.push_back(line_of("held, " + name, of.points, 1 / kMiB, held));
    if (windows.lines.size() < 6) windows.lines.push_back(line_of(name, of.points, 1e3, median));
  }
  write_line_chart(memory, folder / "memory_growth.png");
  write_line_chart(windows, folder / "sliding_window_comparison.png");
}

}  // namespace strata
