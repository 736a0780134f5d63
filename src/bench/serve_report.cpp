#include "bench/serve_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/replace_file.h"
#include "bench/statistics.h"
#include "report/bar_chart.h"
#include "report/line_chart.h"

namespace strata {
namespace {

// Of one completed call with at least one piece of text.
double ttft(const CallRecord& call) { return call.chunks.front() - call.sent; }

double largest_gap(const CallRecord& call) {
  double largest = 0;
  for (size_t i = 1; i < call.chunks.size(); ++i)
    largest = std::max(largest, call.chunks[i] - call.chunks[i - 1]);
  return largest;
}

std::string error_name(const CallRecord& call) {
  if (call.status == 0) return "no answer";
  return call.status == 200 ? "broken stream" : fmt::to_string(call.status);
}

struct Times {
  std::vector<double> ttft, gap, largest_gap, whole;
};

Times times_of(const std::vector<CallRecord>& calls) {
  Times t;
  for (const CallRecord& call : calls) {
    if (!call.error.empty()) continue;
    t.whole.push_back(call.ended - call.sent);
    if (call.chunks.empty()) continue;
    t.ttft.push_back(ttft(call));
    t.largest_gap.push_back(largest_gap(call));
    for (size_t i = 1; i < call.chunks.size(); ++i)
      t.gap.push_back(call.chunks[i] - call.chunks[i - 1]);
  }
  for (std::vector<double>* values : {&t.ttft, &t.gap, &t.largest_gap, &t.whole})
    std::sort(values->begin(), values->end());
  return t;
}

Percentiles percentiles(const std::vector<double>& sorted) {
  return {percentile(sorted, 0.5), percentile(sorted, 0.9), percentile(sorted, 0.99),
          percentile(sorted, 1)};
}

OrderedJson percentiles_json(const Percentiles& p) {
  const auto number = [](double x) { return std::isfinite(x) ? OrderedJson(x) : OrderedJson(); };
  OrderedJson out;
  out["p50"] = number(p.p50);
  out["p90"] = number(p.p90);
  out["p99"] = number(p.p99);
  out["max"] = number(p.most);
  return out;
}

double per_second(const ServeSummary& s, int64_t count) {
  return s.seconds > 0 ? static_cast<double>(count) / s.seconds : 0;
}

Line distribution(const std::string& label, const std::vector<double>& sorted) {
  Line line{label, {}, {}};
  // A thousand points are more than the picture has pixels between its marks.
  const size_t step = std::max<size_t>(1, sorted.size() / 1000);
  for (size_t i = 0; i < sorted.size(); i += step)
    line.add(sorted[i] * 1e3,
             100.0 * static_cast<double>(i + 1) / static_cast<double>(sorted.size()));
  if (!sorted.empty()) line.add(sorted.back() * 1e3, 100);
  return line;
}

// Pieces of text per second and calls under way, in about 100 slices of the test.
std::vector<Line> over_time(const std::vector<CallRecord>& calls, double seconds) {
  constexpr size_t kSlices = 100;
  const double slice = std::max(seconds, 1e-3) / kSlices;
  std::vector<double> pieces(kSlices + 1), running(kSlices + 1);
  const auto index = [&](double at) {
    return static_cast<size_t>(std::clamp(at / slice, 0.0, static_cast<double>(kSlices)));
  };
  for (const CallRecord& call : calls) {
    for (const double at : call.chunks) pieces[index(at)] += 1 / slice;
    for (size_t i = index(call.sent); i <= index(call.ended); ++i) running[i] += 1;
  }
  std::vector<Line> lines = {{"pieces of text per second", {}, {}}, {"calls under way", {}, {}}};
  for (size_t i = 0; i < kSlices; ++i) {
    lines[0].add(static_cast<double>(i) * slice, pieces[i]);
    lines[1].add(static_cast<double>(i) * slice, running[i]);
  }
  return lines;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  ReplaceFile file(path);
  file.write(std::string_view(text));
  file.commit();
}

std::string quoted(std::string text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out + '"';
}

}  // namespace

ServeSummary summarize_calls(const std::vector<CallRecord>& calls, const ServeLimits& limits) {
  ServeSummary s;
  s.calls = static_cast<int64_t>(calls.size());
  double first = INFINITY, last = 0, busy = 0;
  for (const CallRecord& call : calls) {
    first = std::min(first, call.sent);
    last = std::max(last, call.ended);
    busy += call.ended - call.sent;
    if (!call.error.empty()) {
      ++s.errors[error_name(call)];
      continue;
    }
    ++s.completed;
    s.prompt_tokens += call.prompt_tokens;
    s.cached_tokens += call.cached_tokens;
    s.output_tokens += call.output_tokens;
    if (!call.chunks.empty() && ttft(call) <= limits.ttft_seconds &&
        largest_gap(call) <= limits.gap_seconds)
      ++s.good;
  }
  s.seconds = calls.empty() ? 0 : last - first;
  s.mean_running = s.seconds > 0 ? busy / s.seconds : 0;
  const Times t = times_of(calls);
  s.ttft = percentiles(t.ttft);
  s.gap = percentiles(t.gap);
  s.largest_gap = percentiles(t.largest_gap);
  s.whole = percentiles(t.whole);
  return s;
}

OrderedJson summary_json(const ServeSummary& s, const ServeLimits& limits) {
  OrderedJson out;
  out["calls"] = s.calls;
  out["completed"] = s.completed;
  out["errors"] = OrderedJson::object();
  for (const auto& [name, count] : s.errors) out["errors"][name] = count;
  out["seconds"] = s.seconds;
  out["prompt_tokens"] = s.prompt_tokens;
  out["cached_tokens"] = s.cached_tokens;
  out["output_tokens"] = s.output_tokens;
  out["requests_per_second"] = per_second(s, s.completed);
  out["output_tokens_per_second"] = per_second(s, s.output_tokens);
  out["total_tokens_per_second"] = per_second(s, s.prompt_tokens + s.output_tokens);
  out["good"] = s.good;
  out["good_per_second"] = per_second(s, s.good);
  out["limits"] = {{"ttft_s", limits.ttft_seconds}, {"gap_s", limits.gap_seconds}};
  out["mean_running"] = s.mean_running;
  out["ttft_s"] = percentiles_json(s.ttft);
  out["gap_s"] = percentiles_json(s.gap);
  out["largest_gap_s"] = percentiles_json(s.largest_gap);
  out["whole_s"] = percentiles_json(s.whole);
  return out;
}

std::string summary_text(const ServeSummary& s, const ServeLimits& limits) {
  std::string errors;
  for (const auto& [name, count] : s.errors) errors += fmt::format(", {} x {}", count, name);
  std::string out = fmt::format(
      "{} of {} calls completed in {:.1f} s{}\n"
      "{:.1f} output tokens/s, {:.1f} tokens/s with prompts ({} of {} prompt tokens cached), "
      "{:.2f} "
      "requests/s\n"
      "{} kept the limits (first text within {:g} s, no gap above {:g} s): {:.2f} good "
      "requests/s\n",
      s.completed, s.calls, s.seconds, errors, per_second(s, s.output_tokens),
      per_second(s, s.prompt_tokens + s.output_tokens), s.cached_tokens, s.prompt_tokens,
      per_second(s, s.completed), s.good, limits.ttft_seconds, limits.gap_seconds,
      per_second(s, s.good));
  const auto line = [&](const char* what, const Percentiles& p) {
    out += fmt::format("{:<22} p50 {:>9.1f}   p90 {:>9.1f}   p99 {:>9.1f}   max {:>9.1f} ms\n",
                       what, p.p50 * 1e3, p.p90 * 1e3, p.p99 * 1e3, p.most * 1e3);
  };
  line("time to first text", s.ttft);
  line("gap between texts", s.gap);
  line("largest gap of a call", s.largest_gap);
  line("whole call", s.whole);
  return out;
}

void write_comparison(const std::filesystem::path& path, const std::vector<NamedSummary>& runs) {
  const auto number = [](const OrderedJson& summary, const char* key) {
    const auto value = summary.find(key);
    return value != summary.end() && value->is_number() ? value->get<double>() : 0.0;
  };
  double best = 0;
  for (const NamedSummary& run : runs)
    best = std::max(best, number(run.summary, "output_tokens_per_second"));
  BarChart chart;
  chart.title = "Throughput";
  chart.subtitle = "output tokens per second";
  chart.scale = "the best";
  for (const NamedSummary& run : runs) {
    const double rate = number(run.summary, "output_tokens_per_second");
    const auto p99 = [&](const char* key) {
      const auto value = run.summary.find(key);
      return value != run.summary.end() ? number(*value, "p99") : 0.0;
    };
    chart.bars.push_back({run.name, best > 0 ? rate / best : 0,
                          fmt::format("{:.1f} tokens/s; p99: first text {:.2f} s, gap {:.3f} s",
                                      rate, p99("ttft_s"), p99("gap_s"))});
  }
  write_png(chart, path);
}

void write_serve_report(const std::filesystem::path& folder, const OrderedJson& head,
                        const std::vector<PlannedCall>& plan, const std::vector<CallRecord>& calls,
                        const ServeLimits& limits) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail(ErrorCode::invalid_argument, "{}: cannot be made: {}", folder.string(), error.message());
  const ServeSummary summary = summarize_calls(calls, limits);
  OrderedJson json = head;
  json["summary"] = summary_json(summary, limits);
  write_text(folder / "load_test_results.json", to_json_text(json) + "\n");

  std::string csv =
      "planned_s,sent_s,first_text_s,ended_s,status,prompt_tokens,cached_tokens,output_tokens,"
      "texts,largest_gap_s,error\n";
  for (size_t i = 0; i < calls.size(); ++i) {
    const CallRecord& c = calls[i];
    csv += fmt::format("{:.6f},{:.6f},{},{:.6f},{},{},{},{},{},{:.6f},{}\n", plan[i].at_seconds,
                       c.sent, c.chunks.empty() ? "" : fmt::format("{:.6f}", c.chunks.front()),
                       c.ended, c.status, c.prompt_tokens, c.cached_tokens, c.output_tokens,
                       c.chunks.size(), largest_gap(c), quoted(c.error));
  }
  write_text(folder / "calls.csv", csv);

  const Times t = times_of(calls);
  LineChart latency;
  latency.title = "Latency";
  latency.subtitle =
      fmt::format("{} of {} calls completed, {:.1f} output tokens/s", summary.completed,
                  summary.calls, per_second(summary, summary.output_tokens));
  latency.x_label = "milliseconds";
  latency.y_label = "% at most";
  latency.log_x = true;
  latency.y_from_zero = true;
  latency.lines = {distribution("first text", t.ttft), distribution("gap between texts", t.gap),
                   distribution("whole call", t.whole)};
  write_line_chart(latency, folder / "latency_cdf.png");

  LineChart timeline;
  timeline.title = "Load over time";
  timeline.x_label = "seconds";
  timeline.y_label = "";
  timeline.y_from_zero = true;
  timeline.lines = over_time(calls, summary.seconds);
  write_line_chart(timeline, folder / "throughput.png");
}

}  // namespace strata
