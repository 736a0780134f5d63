#include "report/bar_chart.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/canvas.h"

namespace strata {
namespace {

// Pixels.
constexpr double kGap = 12, kBarWidth = 420;
constexpr double kBarHeight = 18, kRowHeight = 28;
constexpr double kScaleLine = 22;
constexpr size_t kMostBars = 1000;

struct Layout {
  double bars_x = 0, values_x = 0;
  double header_height = 0;
  int width = 0, height = 0;
};

Layout lay_out(const BarChart& chart) {
  Canvas scratch(1, 1);
  double labels = 0, values = 0;
  for (const Bar& bar : chart.bars) {
    labels = std::max(labels, scratch.text_width(bar.label, kTextSize));
    values = std::max(values, scratch.text_width(bar.value, kTextSize));
  }
  Layout layout;
  layout.bars_x = kMargin + labels + kGap;
  layout.values_x = layout.bars_x + kBarWidth + kGap;
  const double header = kMargin + std::max(scratch.text_width(chart.title, kTitleSize),
                                           scratch.text_width(chart.subtitle, kTextSize));
  layout.width = static_cast<int>(std::ceil(std::max(layout.values_x + values, header) + kMargin));
  layout.header_height = kMargin + kTitleLine + (chart.subtitle.empty() ? 0 : kTextLine);
  layout.height = static_cast<int>(std::ceil(layout.header_height +
                                             kRowHeight * static_cast<double>(chart.bars.size()) +
                                             kScaleLine + kMargin));
  return layout;
}

void draw(Canvas& canvas, const BarChart& chart, const Layout& layout) {
  canvas.write(kInk, chart.title, kTitleSize, kMargin, kMargin + kTitleSize);
  if (!chart.subtitle.empty())
    canvas.write(kFaint, chart.subtitle, kTextSize, kMargin, kMargin + kTitleLine + kTextSize);
  double y = layout.header_height;
  for (const Bar& bar : chart.bars) {
    const double base_line = y + kBarHeight - 4;
    const double share = std::isnan(bar.share) ? 0 : std::clamp(bar.share, 0.0, 1.0);
    canvas.write(kInk, bar.label, kTextSize, kMargin, base_line);
    canvas.fill(kTrack, layout.bars_x, y, kBarWidth, kBarHeight);
    canvas.fill(kBlue, layout.bars_x, y, kBarWidth * share, kBarHeight);
    canvas.write(kInk, bar.value, kTextSize, layout.values_x, base_line);
    y += kRowHeight;
  }
  const std::string full = "100 %: " + chart.scale;
  const double right = layout.bars_x + kBarWidth - canvas.text_width(full, kTextSize);
  canvas.write(kFaint, "0 %", kTextSize, layout.bars_x, y + kTextSize);
  canvas.write(kFaint, full, kTextSize, right, y + kTextSize);
}

}  // namespace

void write_png(const BarChart& chart, const std::filesystem::path& path) {
  if (chart.bars.size() > kMostBars)
    fail(ErrorCode::invalid_argument, "{}: a chart of {} bars, wanted at most {}", path.string(),
         chart.bars.size(), kMostBars);
  const Layout layout = lay_out(chart);
  Canvas canvas(layout.width, layout.height);
  draw(canvas, chart, layout);
  canvas.save(path);
}

}  // namespace strata
