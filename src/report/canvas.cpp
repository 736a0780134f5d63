#include "report/canvas.h"

#include <string_view>

#include "base/error.h"
#include "base/replace_file.h"

namespace strata {
namespace {

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

Canvas::Canvas(int width, int height)
    : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)),
      pen_(cairo_create(surface_.get())) {
  fill({1, 1, 1}, 0, 0, width, height);
}

void Canvas::fill(const Colour& c, double x, double y, double width, double height) {
  cairo_set_source_rgb(pen_.get(), c.red, c.green, c.blue);
  cairo_rectangle(pen_.get(), x, y, width, height);
  cairo_fill(pen_.get());
}

void Canvas::line(const Colour& c, double width,
                  const std::vector<std::pair<double, double>>& points) {
  cairo_set_source_rgb(pen_.get(), c.red, c.green, c.blue);
  cairo_set_line_width(pen_.get(), width);
  cairo_set_line_join(pen_.get(), CAIRO_LINE_JOIN_ROUND);
  cairo_new_path(pen_.get());  // a text leaves the pen where it ends
  for (const auto& [x, y] : points) cairo_line_to(pen_.get(), x, y);
  cairo_stroke(pen_.get());
}

double Canvas::text_width(const std::string& text, double size) {
  set_font(size);
  cairo_text_extents_t extents;
  cairo_text_extents(pen_.get(), text.c_str(), &extents);
  return extents.x_advance;
}

void Canvas::write(const Colour& c, const std::string& text, double size, double x, double y) {
  set_font(size);
  cairo_set_source_rgb(pen_.get(), c.red, c.green, c.blue);
  cairo_move_to(pen_.get(), x, y);
  cairo_show_text(pen_.get(), text.c_str());
}

void Canvas::set_font(double size) {
  cairo_select_font_face(pen_.get(), "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(pen_.get(), size);
}

void Canvas::save(const std::filesystem::path& path) const {
  // Cairo remembers its first fault and draws nothing more.
  cairo_status_t status = cairo_status(pen_.get());
  if (status != CAIRO_STATUS_SUCCESS)
    fail(ErrorCode::resource_exhausted, "{}: the picture could not be drawn: {}", path.string(),
         cairo_status_to_string(status));
  PngTarget png;
  status = cairo_surface_write_to_png_stream(surface_.get(), &PngTarget::append, &png);
  if (status != CAIRO_STATUS_SUCCESS)
    fail(ErrorCode::resource_exhausted, "{}: the picture could not be written: {}", path.string(),
         cairo_status_to_string(status));
  ReplaceFile file(path);
  file.write(std::string_view(png.bytes));
  file.commit();
}

}  // namespace strata
