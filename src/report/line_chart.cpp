#include "report/line_chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/canvas.h"

namespace strata {
namespace {

constexpr int kWidth = 860, kHeight = 520;
constexpr double kLeft = 84, kRight = 24, kBottom = 64;
constexpr size_t kMostLines = 8;
// Distinct also for readers who do not see red and green apart (Okabe and Ito 2008).
constexpr Colour kColours[kMostLines] = {{0.00, 0.45, 0.70}, {0.90, 0.62, 0.00}, {0.00, 0.62, 0.45},
                                         {0.84, 0.37, 0.00}, {0.80, 0.47, 0.65}, {0.34, 0.71, 0.91},
                                         {0.40, 0.40, 0.40}, {0.73, 0.69, 0.10}};

struct Range {
  double least = 0, most = 0;
};

// Where the chart's numbers are on the picture.
class Axes {
 public:
  Axes(const LineChart& chart, double top) : log_x_(chart.log_x), top_(top) {
    double least_x = INFINITY;
    for (const Line& line : chart.lines)
      for (const auto& [x, y] : line.points) {
        if (!std::isfinite(x) || !std::isfinite(y)) continue;
        if (x > 0) least_x = std::min(least_x, x);
        x_.most = std::max(x_.most, x);
        y_.most = std::max(y_.most, y);
      }
    if (x_.most <= 0) x_.most = 1;
    if (y_.most <= 0) y_.most = 1;
    if (!log_x_) return;
    x_.least = std::pow(10, std::floor(std::log10(std::min(least_x, x_.most))));
    x_.most = std::pow(10, std::ceil(std::log10(x_.most) + 1e-9));
  }

  double x(double value) const {
    const double share =
        log_x_ ? std::log(std::max(value, x_.least) / x_.least) / std::log(x_.most / x_.least)
               : value / x_.most;
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  double y(double value) const { return bottom() - value / y_.most * (bottom() - top_); }
  double top() const { return top_; }
  static double bottom() { return kHeight - kBottom; }

  std::vector<double> x_marks() const {
    if (!log_x_) return axis_marks(x_.most, 8);
    std::vector<double> marks;
    for (double mark = x_.least; mark <= x_.most * 1.001; mark *= 10) marks.push_back(mark);
    return marks;
  }
  std::vector<double> y_marks() const { return axis_marks(y_.most, 6); }

 private:
  bool log_x_;
  double top_;
  Range x_, y_;
};

void draw_axes(Canvas& canvas, const LineChart& chart, const Axes& axes) {
  for (const double mark : axes.x_marks()) {
    const std::string text = fmt::format("{:g}", mark);
    canvas.line(kTrack, 1, {{axes.x(mark), axes.top()}, {axes.x(mark), Axes::bottom()}});
    canvas.write(kFaint, text, kTextSize, axes.x(mark) - canvas.text_width(text, kTextSize) / 2,
                 Axes::bottom() + 18);
  }
  for (const double mark : axes.y_marks()) {
    const std::string text = fmt::format("{:g}", mark);
    canvas.line(kTrack, 1, {{kLeft, axes.y(mark)}, {kWidth - kRight, axes.y(mark)}});
    canvas.write(kFaint, text, kTextSize, kLeft - 8 - canvas.text_width(text, kTextSize),
                 axes.y(mark) + 4);
  }
  canvas.line(kFaint, 1,
              {{kLeft, axes.top()}, {kLeft, Axes::bottom()}, {kWidth - kRight, Axes::bottom()}});
  canvas.write(kFaint, chart.x_label, kTextSize,
               kWidth - kRight - canvas.text_width(chart.x_label, kTextSize), kHeight - kMargin);
  canvas.write(kFaint, chart.y_label, kTextSize, kMargin, axes.top() - 8);
}

}  // namespace

std::vector<double> axis_marks(double most, int count) {
  const double raw = most / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double lead = raw / power;
  const double step = power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
  std::vector<double> marks;
  for (int i = 0; i * step <= most * (1 + 1e-9); ++i) marks.push_back(i * step);
  return marks;
}

void write_line_chart(const LineChart& chart, const std::filesystem::path& path) {
  if (chart.lines.size() > kMostLines)
    fail(ErrorCode::invalid_argument, "{}: a chart of {} lines, wanted at most {}", path.string(),
         chart.lines.size(), kMostLines);
  Canvas canvas(kWidth, kHeight);
  canvas.write(kInk, chart.title, kTitleSize, kMargin, kMargin + kTitleSize);
  double top = kMargin + kTitleLine;
  if (!chart.subtitle.empty()) {
    canvas.write(kFaint, chart.subtitle, kTextSize, kMargin, top + kTextSize);
    top += kTextLine;
  }
  // The legend, in one row.
  double x = kLeft;
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    canvas.fill(kColours[i], x, top + 4, 14, 10);
    canvas.write(kInk, chart.lines[i].label, kTextSize, x + 20, top + kTextSize);
    x += 20 + canvas.text_width(chart.lines[i].label, kTextSize) + 20;
  }
  top += 2 * kTextLine;
  const Axes axes(chart, top);
  draw_axes(canvas, chart, axes);
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [px, py] : chart.lines[i].points)
      if (std::isfinite(px) && std::isfinite(py)) points.emplace_back(axes.x(px), axes.y(py));
    canvas.line(kColours[i], 2, points);
  }
  canvas.save(path);
}

}  // namespace strata
