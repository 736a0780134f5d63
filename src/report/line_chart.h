#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace strata {

struct Line {
  std::string label;
  std::vector<double> x, y;  // as many; points that are not finite are left out
  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
};

// Lines over common axes with round numbers at the grid; at most six lines.
struct LineChart {
  std::string title;
  std::string subtitle;  // smaller, below it; may be empty
  std::string x_label, y_label;
  std::vector<Line> lines;
  bool log_x = false;  // x below or at 0 is then left out
  bool log_y = false;  // likewise
  bool y_from_zero = false;
};

// Writes the chart as a PNG file of 960 x 540 pixels. Throws Error{invalid_argument} when the file
// cannot be created or the lines are more than six or uneven, resource_exhausted when the disk or
// memory is full; both name the file.
void write_line_chart(const LineChart& chart, const std::filesystem::path& path);

// Round numbers (1, 2 or 5 times a power of ten apart) that cover [low, high], about `wanted`.
std::vector<double> round_ticks(double low, double high, int wanted);

}  // namespace strata
