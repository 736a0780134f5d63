#include "report/heat_map.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/canvas.h"

namespace strata {
namespace {

// Pixels.
constexpr double kMargin = 24, kGap = 28, kTextSize = 12, kTitleSize = 18, kHeader = 76;
constexpr size_t kMostMaps = 64, kMostLabels = 256;

Colour shade(double value) {
  const double v = std::isfinite(value) ? std::clamp(value, 0.0, 1.0) : 0.0;
  return {1 - v * (1 - kBlue.red), 1 - v * (1 - kBlue.green), 1 - v * (1 - kBlue.blue)};
}

}  // namespace

void write_heat_maps(const HeatMapPage& page, const std::filesystem::path& path) {
  const size_t rows = page.row_labels.size(), columns = page.column_labels.size();
  if (page.maps.empty() || page.maps.size() > kMostMaps || rows < 1 || rows > kMostLabels ||
      columns < 1 || columns > kMostLabels)
    fail(ErrorCode::invalid_argument,
         "{}: {} maps of {} x {}, wanted 1 to {} maps of at most {} x {}", path.string(),
         page.maps.size(), rows, columns, kMostMaps, kMostLabels, kMostLabels);
  for (const HeatMap& map : page.maps)
    if (map.values.size() != rows * columns)
      fail(ErrorCode::invalid_argument, "{}: map '{}' has {} numbers, wanted {} x {}",
           path.string(), map.title, map.values.size(), rows, columns);

  Canvas scratch(1, 1);
  double label_width = 0, column_width = 0;
  for (const std::string& label : page.row_labels)
    label_width = std::max(label_width, scratch.text_width(label, kTextSize));
  for (const std::string& label : page.column_labels)
    column_width = std::max(column_width, scratch.text_width(label, kTextSize));
  const bool single = page.maps.size() == 1;
  // Squares as large as a page of 1,200 pixels lets them be; labels of columns need their width.
  const auto across =
      single ? 1 : static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(page.maps.size()))));
  const size_t down = (page.maps.size() + across - 1) / across;
  double square = std::clamp(
      1200.0 / static_cast<double>(across) / static_cast<double>(std::max(rows, columns)), 3.0,
      48.0);
  if (page.annotate) square = std::max(square, 40.0);
  if (single) square = std::max(square, std::min(column_width + 8, 64.0));
  const double map_width = label_width + 8 + square * static_cast<double>(columns);
  const double map_height = 44 + square * static_cast<double>(rows);
  const double width =
      std::max(2 * kMargin + static_cast<double>(across) * (map_width + kGap) - kGap,
               2 * kMargin + scratch.text_width(page.title, kTitleSize));
  const double height = kHeader + kMargin + static_cast<double>(down) * (map_height + kGap);

  Canvas canvas(static_cast<int>(std::ceil(width)), static_cast<int>(std::ceil(height)));
  canvas.fill({1, 1, 1}, 0, 0, width, height);
  canvas.write(kInk, page.title, kTitleSize, kMargin, 36);
  canvas.write(kFaint, page.subtitle, kTextSize, kMargin, 58);
  for (size_t m = 0; m < page.maps.size(); ++m) {
    const HeatMap& map = page.maps[m];
    const double x = kMargin + static_cast<double>(m % across) * (map_width + kGap);
    const double y = kHeader + static_cast<double>(m / across) * (map_height + kGap);
    const double left = x + label_width + 8, top = y + 40;
    canvas.write(kInk, map.title, kTextSize + 1, left, y + 12);
    for (size_t c = 0; c < columns; ++c) {
      // Labels that would run into each other are left out.
      if (column_width + 6 > square &&
          c % (1 + static_cast<size_t>((column_width + 6) / square)) != 0)
        continue;
      canvas.write(kFaint, page.column_labels[c], kTextSize,
                   left + square * static_cast<double>(c) + 2, top - 6);
    }
    for (size_t r = 0; r < rows; ++r) {
      const double row_y = top + square * static_cast<double>(r);
      if (square >= kTextSize)
        canvas.write(kFaint, page.row_labels[r], kTextSize,
                     left - 8 - canvas.text_width(page.row_labels[r], kTextSize),
                     row_y + square / 2 + 4);
      for (size_t c = 0; c < columns; ++c) {
        const double value = map.values[r * columns + c];
        const double cell_x = left + square * static_cast<double>(c);
        canvas.fill(kTrack, cell_x, row_y, square, square);
        canvas.fill(shade(value), cell_x, row_y, square - 1, square - 1);
        if (!page.annotate) continue;
        const std::string text = fmt::format("{:.2f}", value);
        canvas.write(value > 0.55 ? Colour{1, 1, 1} : kInk, text, 11,
                     cell_x + (square - canvas.text_width(text, 11)) / 2, row_y + square / 2 + 4);
      }
    }
  }
  canvas.save(path);
}

}  // namespace strata
