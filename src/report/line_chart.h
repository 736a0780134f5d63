#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace strata {

struct Line {
  std::string label;
  std::vector<std::pair<double, double>> points;  // (x, y), x ascending; not finite: left out
};

// Lines over one pair of axes that begin at 0 (or at `least_x` on a logarithmic x axis).
struct LineChart {
  std::string title = {};
  std::string subtitle = {};  // smaller, below it; may be empty
  std::string x_label = {}, y_label = {};
  bool log_x = false;
  std::vector<Line> lines = {};  // at most 8
};

// Marks of an axis: about `count` round numbers from 0 to `most`.
std::vector<double> axis_marks(double most, int count);

// Writes the chart as a PNG file of 860 x 520 pixels. Throws Error{invalid_argument} when the file
// cannot be created or there are more than 8 lines, resource_exhausted when the disk or memory is
// full; both name the file.
void write_line_chart(const LineChart& chart, const std::filesystem::path& path);

}  // namespace strata
