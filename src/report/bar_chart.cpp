#include "report/bar_chart.h"

#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/replace_file.h"

namespace strata {
namespace {

// Pixels.
constexpr double kMargin = 24, kGap = 12, kBarWidth = 420;
constexpr double kBarHeight = 18, kRowHeight = 28;
constexpr double kTextSize = 13, kTitleSize = 18;
constexpr double kTitleLine = 30, kTextLine = 22, kScaleLine = 22;
constexpr size_t kMostBars = 1000;

struct Colour {
  double red, green, blue;
};
constexpr Colour kInk = {0.13, 0.15, 0.18}, kFaint = {0.42, 0.45, 0.5};
constexpr Colour kBlue = {0.18, 0.42, 0.69}, kTrack = {0.92, 0.93, 0.95};

struct DestroySurface {
  void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
};
struct DestroyContext {
  void operator()(cairo_t* c) const { cairo_destroy(c); }
};
using Surface = std::unique_ptr<cairo_surface_t, DestroySurface>;
using Context = std::unique_ptr<cairo_t, DestroyContext>;

// A picture of width x height pixels and the pen that draws on it.
class Canvas {
 public:
  Canvas(int width, int height)
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)),
        pen_(cairo_create(surface_.get())) {}

  // Cairo remembers its first fault and draws nothing more.
  void check(const std::filesystem::path& path) const {
    const cairo_status_t status = cairo_status(pen_.get());
    if (status != CAIRO_STATUS_SUCCESS)
      fail(ErrorCode::resource_exhausted, "{}: the picture could not be drawn: {}", path.string(),
           cairo_status_to_string(status));
  }

  void fill(const Colour& c, double x, double y, double width, double height) {
    cairo_set_source_rgb(pen_.get(), c.red, c.green, c.blue);
    cairo_rectangle(pen_.get(), x, y, width, height);
    cairo_fill(pen_.get());
  }

  double text_width(const std::string& text, double size) {
    set_font(size);
    cairo_text_extents_t extents;
    cairo_text_extents(pen_.get(), text.c_str(), &extents);
    return extents.x_advance;
  }

  // (x, y): the left end of the base line.
  void write(const Colour& c, const std::string& text, double size, double x, double y) {
    set_font(size);
    cairo_set_source_rgb(pen_.get(), c.red, c.green, c.blue);
    cairo_move_to(pen_.get(), x, y);
    cairo_show_text(pen_.get(), text.c_str());
  }

  cairo_surface_t* surface() const { return surface_.get(); }

 private:
  void set_font(double size) {
    cairo_select_font_face(pen_.get(), "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                           CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(pen_.get(), size);
  }

  Surface surface_;
  Context pen_;
};

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
  canvas.fill({1, 1, 1}, 0, 0, layout.width, layout.height);
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

// Takes what cairo writes; C code in between must not see an exception.
struct PngTarget {
  std::string bytes;
  static cairo_status_t append(void* self, const unsigned char* data, unsigned size) noexcept {
    try {
      static_cast<PngTarget*>(self)->bytes.append(reinterpret_cast<const char*>(data), size);
      return CAIRO_STATUS_SUCCESS;
    } catch (...) {
      return CAIRO_STATUS_NO_MEMORY;
    }
  }
};

}  // namespace

void write_png(const BarChart& chart, const std::filesystem::path& path) {
  if (chart.bars.size() > kMostBars)
    fail(ErrorCode::invalid_argument, "{}: a chart of {} bars, wanted at most {}", path.string(),
         chart.bars.size(), kMostBars);
  const Layout layout = lay_out(chart);
  Canvas canvas(layout.width, layout.height);
  draw(canvas, chart, layout);
  canvas.check(path);
  PngTarget png;
  const cairo_status_t status =
      cairo_surface_write_to_png_stream(canvas.surface(), &PngTarget::append, &png);
  if (status != CAIRO_STATUS_SUCCESS)
    fail(ErrorCode::resource_exhausted, "{}: the picture could not be written: {}", path.string(),
         cairo_status_to_string(status));
  ReplaceFile file(path);
  file.write(std::string_view(png.bytes));
  file.commit();
}

}  // namespace strata
