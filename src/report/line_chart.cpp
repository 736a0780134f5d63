#include "report/line_chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "report/canvas.h"

namespace strata {
namespace {

// Pixels.
constexpr int kWidth = 960, kHeight = 540;
constexpr double kLeft = 84, kRight = 30, kTop = 84, kBottom = 62;
constexpr double kTextSize = 13, kTitleSize = 18;
// Of a line that has only a few points each is marked, so that one alone is seen, too.
constexpr size_t kMarkedPoints = 24;
constexpr double kMark = 6;
constexpr std::array<Colour, 6> kColours = {{{0.18, 0.42, 0.69},
                                             {0.84, 0.37, 0.10},
                                             {0.20, 0.55, 0.30},
                                             {0.58, 0.34, 0.65},
                                             {0.55, 0.43, 0.20},
                                             {0.45, 0.45, 0.48}}};

// 1, 2 and 5 times the powers of ten within [low, high].
std::vector<double> powers_of_ten(double low, double high) {
  std::vector<double> ticks;
  for (double power = std::pow(10.0, std::floor(std::log10(low))); power <= high; power *= 10)
    for (const double digit : {1.0, 2.0, 5.0})
      if (digit * power >= low && digit * power <= high) ticks.push_back(digit * power);
  return ticks;
}

struct Range {
  double low = INFINITY, high = -INFINITY;
  bool log = false;
  void take(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  // Never empty.
  void settle() {
    if (!(low <= high)) *this = {log ? 1.0 : 0.0, log ? 10.0 : 1.0, log};
    if (low == high) high = log ? 10 * low : low + 1;
  }
  double share(double v) const {
    return log ? std::log(v / low) / std::log(high / low) : (v - low) / (high - low);
  }
  std::vector<double> ticks(int wanted) const {
    return log ? powers_of_ten(low, high) : round_ticks(low, high, wanted);
  }
};

std::string tick_text(double v) {
  std::string text = fmt::format("{:.6g}", v);
  return text == "-0" ? "0" : text;
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int wanted) {
  const double rough = (high - low) / std::max(wanted, 1);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double digit = rough / power;
  const double step = (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10) * power;
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i)
    ticks.push_back(i * step);
  return ticks;
}

void write_line_chart(const LineChart& chart, const std::filesystem::path& path) {
  if (chart.lines.size() > kColours.size())
    fail(ErrorCode::invalid_argument, "{}: a chart of {} lines, wanted at most {}", path.string(),
         chart.lines.size(), kColours.size());
  const auto drawn = [&](const Line& line, size_t i) {
    return std::isfinite(line.x[i]) && std::isfinite(line.y[i]) &&
           (!chart.log_x || line.x[i] > 0) && (!chart.log_y || line.y[i] > 0);
  };
  Range x, y;
  x.log = chart.log_x;
  y.log = chart.log_y;
  if (chart.y_from_zero && !chart.log_y) y.take(0);
  for (const Line& line : chart.lines) {
    if (line.x.size() != line.y.size())
      fail(ErrorCode::invalid_argument, "{}: line '{}' has {} x and {} y", path.string(),
           line.label, line.x.size(), line.y.size());
    for (size_t i = 0; i < line.x.size(); ++i) {
      if (!drawn(line, i)) continue;
      x.take(line.x[i]);
      y.take(line.y[i]);
    }
  }
  x.settle();
  y.settle();
  const double width = kWidth - kLeft - kRight, height = kHeight - kTop - kBottom;
  const auto at_x = [&](double v) { return kLeft + width * x.share(v); };
  const auto at_y = [&](double v) { return kTop + height * (1 - y.share(v)); };

  Canvas canvas(kWidth, kHeight);
  canvas.fill({1, 1, 1}, 0, 0, kWidth, kHeight);
  canvas.write(kInk, chart.title, kTitleSize, kLeft, 32);
  canvas.write(kFaint, chart.subtitle, kTextSize, kLeft, 54);
  for (const double v : y.ticks(6)) {
    canvas.fill(kTrack, kLeft, at_y(v), width, 1);
    const std::string text = tick_text(v);
    canvas.write(kFaint, text, kTextSize, kLeft - 8 - canvas.text_width(text, kTextSize),
                 at_y(v) + 4);
  }
  for (const double v : x.ticks(8)) {
    canvas.fill(kTrack, at_x(v), kTop, 1, height);
    const std::string text = tick_text(v);
    canvas.write(kFaint, text, kTextSize, at_x(v) - canvas.text_width(text, kTextSize) / 2,
                 kTop + height + 18);
  }
  canvas.write(kFaint, chart.x_label, kTextSize,
               kLeft + width - canvas.text_width(chart.x_label, kTextSize), kHeight - 16);
  canvas.write(kFaint, chart.y_label, kTextSize, 12, kTop - 10);

  double legend = kLeft + 90;
  std::vector<double> points;
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const Line& line = chart.lines[i];
    points.clear();
    for (size_t j = 0; j < line.x.size(); ++j) {
      if (!drawn(line, j)) continue;
      points.push_back(at_x(line.x[j]));
      points.push_back(at_y(line.y[j]));
    }
    canvas.stroke(kColours[i], 1.8, points.data(), static_cast<int>(points.size() / 2));
    for (size_t j = 0; j < points.size() && points.size() <= 2 * kMarkedPoints; j += 2)
      canvas.fill(kColours[i], points[j] - kMark / 2, points[j + 1] - kMark / 2, kMark, kMark);
    canvas.fill(kColours[i], legend, kTop - 17, 18, 4);
    canvas.write(kInk, line.label, kTextSize, legend + 24, kTop - 10);
    legend += 24 + canvas.text_width(line.label, kTextSize) + 28;
  }
  canvas.save(path);
}

}  // namespace strata
