#pragma once

#include <cairo.h>

#include <filesystem>
#include <memory>
#include <string>

namespace strata {

struct Colour {
  double red, green, blue;
};
inline constexpr Colour kInk = {0.13, 0.15, 0.18}, kFaint = {0.42, 0.45, 0.5};
inline constexpr Colour kBlue = {0.18, 0.42, 0.69}, kTrack = {0.92, 0.93, 0.95};

// A picture of width x height pixels and the pen that draws on it, for the charts of this folder.
class Canvas {
 public:
  Canvas(int width, int height);

  void fill(const Colour& c, double x, double y, double width, double height);
  // A line through the points, `points` of them as x, y, x, y...
  void stroke(const Colour& c, double line_width, const double* points, int count);
  double text_width(const std::string& text, double size);
  // (x, y): the left end of the base line.
  void write(const Colour& c, const std::string& text, double size, double x, double y);

  // Writes a PNG file. Throws Error{invalid_argument} when it cannot be created,
  // resource_exhausted when the disk or memory is full; both name the file.
  void save(const std::filesystem::path& path) const;

 private:
  struct DestroySurface {
    void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
  };
  struct DestroyContext {
    void operator()(cairo_t* c) const { cairo_destroy(c); }
  };
  void set_font(double size);

  std::unique_ptr<cairo_surface_t, DestroySurface> surface_;
  std::unique_ptr<cairo_t, DestroyContext> pen_;
};

}  // namespace strata
