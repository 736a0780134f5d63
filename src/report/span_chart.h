#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace strata {

// A stretch of one row.
struct ChartSpan {
  size_t row = 0;
  size_t kind = 0;  // index into SpanChart::kinds
  double begin = 0, end = 0;
};

// Rows over a common axis with coloured stretches: who did what when.
struct SpanChart {
  std::string title;
  std::string subtitle;  // smaller, below it; may be empty
  std::string x_label, y_label;
  std::vector<std::string> kinds;  // at most six
  size_t rows = 0;                 // at most 1000
  std::vector<ChartSpan> spans;    // later ones lie over earlier ones
};

// Writes the chart as a PNG file 1,200 pixels wide, as high as its rows. Throws
// Error{invalid_argument} when the file cannot be created, there are too many rows or kinds, or a
// span names others; resource_exhausted when the disk or memory is full. Both name the file.
void write_span_chart(const SpanChart& chart, const std::filesystem::path& path);

}  // namespace strata
