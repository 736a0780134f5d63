#include "report/span_chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "report/canvas.h"
#include "report/line_chart.h"

namespace strata {
namespace {

// Pixels.
constexpr double kWidth = 1200, kLeft = 64, kRight = 30, kTop = 84, kBottom = 50;
constexpr double kTextSize = 13, kTitleSize = 18;
constexpr double kPicture = 720;  // rows are this high together, as far as the limits below allow
constexpr double kLeastRow = 3, kMostRow = 16, kLeastSpan = 1;
constexpr size_t kMostRows = 1000;
constexpr std::array<Colour, 6> kColours = {{{0.36, 0.55, 0.78},
                                             {0.35, 0.67, 0.42},
                                             {0.84, 0.30, 0.10},
                                             {0.58, 0.34, 0.65},
                                             {0.75, 0.62, 0.25},
                                             {0.60, 0.60, 0.63}}};

}  // namespace

void write_span_chart(const SpanChart& chart, const std::filesystem::path& path) {
  if (chart.rows > kMostRows || chart.kinds.size() > kColours.size())
    fail(ErrorCode::invalid_argument, "{}: {} rows of {} kinds, wanted at most {} of {}",
         path.string(), chart.rows, chart.kinds.size(), kMostRows, kColours.size());
  double low = INFINITY, high = -INFINITY;
  for (const ChartSpan& s : chart.spans) {
    if (s.row >= chart.rows || s.kind >= chart.kinds.size())
      fail(ErrorCode::invalid_argument, "{}: a span of row {} and kind {}, there are {} and {}",
           path.string(), s.row, s.kind, chart.rows, chart.kinds.size());
    low = std::min(low, s.begin);
    high = std::max(high, s.end);
  }
  if (!(low < high)) {
    low = 0;
    high = 1;
  }
  const double row = std::clamp(kPicture / static_cast<double>(std::max<size_t>(chart.rows, 1)),
                                kLeastRow, kMostRow);
  const double width = kWidth - kLeft - kRight;
  const double height = row * static_cast<double>(std::max<size_t>(chart.rows, 1));
  const auto at_x = [&](double v) { return kLeft + width * (v - low) / (high - low); };

  Canvas canvas(static_cast<int>(kWidth), static_cast<int>(kTop + height + kBottom));
  canvas.fill({1, 1, 1}, 0, 0, kWidth, kTop + height + kBottom);
  canvas.write(kInk, chart.title, kTitleSize, kLeft, 32);
  canvas.write(kFaint, chart.subtitle, kTextSize, kLeft, 54);
  for (const double v : round_ticks(low, high, 10)) {
    canvas.fill(kTrack, at_x(v), kTop, 1, height);
    const std::string text = fmt::format("{:.6g}", v == 0 ? 0.0 : v);
    canvas.write(kFaint, text, kTextSize, at_x(v) - canvas.text_width(text, kTextSize) / 2,
                 kTop + height + 18);
  }
  const double gap = row > 5 ? 1 : 0;
  for (const ChartSpan& s : chart.spans)
    canvas.fill(kColours[s.kind], at_x(s.begin), kTop + row * static_cast<double>(s.row),
                std::max(at_x(s.end) - at_x(s.begin), kLeastSpan), row - gap);
  canvas.write(kFaint, chart.x_label, kTextSize,
               kLeft + width - canvas.text_width(chart.x_label, kTextSize), kTop + height + 38);
  canvas.write(kFaint, chart.y_label, kTextSize, 12, kTop - 10);
  double legend = kLeft + 90;
  for (size_t i = 0; i < chart.kinds.size(); ++i) {
    canvas.fill(kColours[i], legend, kTop - 20, 18, 10);
    canvas.write(kInk, chart.kinds[i], kTextSize, legend + 24, kTop - 10);
    legend += 24 + canvas.text_width(chart.kinds[i], kTextSize) + 28;
  }
  canvas.save(path);
}

}  // namespace strata
