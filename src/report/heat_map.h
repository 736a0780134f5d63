#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace strata {

// A matrix of numbers in [0, 1] as squares, white to blue; rows and columns have labels. Several
// maps stand side by side with common labels.
struct HeatMap {
  std::string title;
  std::vector<double> values;  // row-major, rows x columns
};
struct HeatMapPage {
  std::string title;
  std::string subtitle;  // may be empty
  std::vector<std::string> row_labels, column_labels;
  std::vector<HeatMap> maps;  // up to 64
  bool annotate = false;      // write each number into its square
};

// Writes a PNG file. Throws Error{invalid_argument} for maps whose numbers do not fit the labels,
// more than 64 maps or 256 rows or columns, or a file that cannot be created;
// Error{resource_exhausted} when the disk or memory is full.
void write_heat_maps(const HeatMapPage& page, const std::filesystem::path& path);

}  // namespace strata
