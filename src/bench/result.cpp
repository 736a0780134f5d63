#include "bench/result.h"

#include <fmt/core.h>

#include <cmath>

#include "bench/statistics.h"
#include "report/bar_chart.h"
#include "report/text_table.h"

namespace strata {
namespace {

// Four digits that count: 1234, 56.78, 0.1234.
std::string figure(double value) {
  const double size = std::abs(value);
  const int digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
  return fmt::format("{:.{}f}", value, digits);
}

std::string params_text(const OrderedJson& params) {
  std::string text;
  for (const auto& [name, value] : params.items()) {
    if (!text.empty()) text += ' ';
    text += name + '=' + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string limits_text(const MachineLimits& l) {
  return fmt::format(
      "read {:.1f} GB/s, fp32 {:.0f} GFLOP/s, int8 {:.0f} / {:.0f} / {:.0f} / {:.0f} GOP/s "
      "(4, 5, 6, 8-bit weights)",
      l.read_gb_s, l.fp32_gflop_s, l.int8_u4_gop_s, l.int8_u5_gop_s, l.int8_u6_gop_s,
      l.int8_s8_gop_s);
}

}  // namespace

BenchResult finish(const Measurement& m, const MachineLimits& limits) {
  const Summary summary = summarize(m.values);
  BenchResult result{m.what, m.model, m.params, summary.median, m.unit, summary.deviation, 0};
  const double least = m.work.least_seconds(limits);
  if (summary.median > 0)
    result.of_limit = m.unit == "s" ? least / summary.median : summary.median * least / m.units;
  return result;
}

std::string report_json(const BenchReport& report) {
  OrderedJson out;
  out["isa"] = report.isa;
  out["threads"] = report.threads;
  out["config_hash"] = report.config_hash;
  out["limits"] = {{"read_gb_s", report.limits.read_gb_s},
                   {"fp32_gflop_s", report.limits.fp32_gflop_s},
                   {"int8_gop_s", report.limits.int8_gop_s()}};
  out["results"] = OrderedJson::array();
  for (const BenchResult& r : report.results) {
    OrderedJson one;
    one["what"] = r.what;
    one["model"] = r.model.empty() ? OrderedJson(nullptr) : OrderedJson(r.model);
    one["params"] = r.params;
    one["value"] = r.value;
    one["unit"] = r.unit;
    one["spread"] = r.spread;
    one["of_limit"] = r.of_limit;
    out["results"].push_back(std::move(one));
  }
  if (!report.details.is_null()) out["details"] = report.details;
  return to_json_text(out);
}

std::string report_text(const BenchReport& report) {
  TextTable table({{"what"},
                   {"model"},
                   {"params"},
                   {"median", Align::right},
                   {"MAD", Align::right},
                   {"unit"},
                   {"of limit", Align::right},
                   {"isa"}});
  for (const BenchResult& r : report.results)
    table.add_row({r.what, r.model.empty() ? "-" : r.model, params_text(r.params), figure(r.value),
                   figure(r.spread), r.unit, percent(r.of_limit), report.isa});
  return fmt::format(
      "{}\nMAD: median absolute deviation. {} threads, {}; limits of this run: {}.\n"
      "config_hash {}\n",
      table.text(), report.threads, report.isa, limits_text(report.limits), report.config_hash);
}

void report_png(const BenchReport& report, const std::filesystem::path& path) {
  BarChart chart;
  chart.title = fmt::format("strata bench, {}, {} threads", report.isa, report.threads);
  chart.subtitle = limits_text(report.limits);
  chart.scale = "this machine's limit";
  for (const BenchResult& r : report.results) {
    std::string label = r.what;
    for (const std::string& part : {r.model, params_text(r.params)})
      if (!part.empty()) label += "  " + part;
    chart.bars.push_back({label, r.of_limit,
                          fmt::format("{} of limit: {} \u00b1 {} {}", percent(r.of_limit),
                                      figure(r.value), figure(r.spread), r.unit)});
  }
  write_png(chart, path);
}

}  // namespace strata
