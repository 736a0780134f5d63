#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace strata {

struct Bar {
  std::string label;  // to the left of the bar
  double share = 0;   // of the full width; drawn within 0..1, NaN as 0
  std::string value;  // to its right
};

// Horizontal bars against a scale from 0 to 100 %, one below the other in their order.
struct BarChart {
  std::string title;
  std::string subtitle;  // smaller, below it; may be empty
  std::string scale;     // what 100 % is
  std::vector<Bar> bars;
};

// Writes the chart as a PNG file: as wide as its longest texts need, as high as its bars. Throws
// Error{invalid_argument} when the file cannot be created or there are more than 1000 bars,
// resource_exhausted when the disk or memory is full; both name the file.
void write_png(const BarChart& chart, const std::filesystem::path& path);

}  // namespace strata
