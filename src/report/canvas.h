#pragma once

#include <cairo.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace strata {

// What charts are drawn on. Private to this folder.

struct Colour {
  double red, green, blue;
};
inline constexpr Colour kInk = {0.13, 0.15, 0.18}, kFaint = {0.42, 0.45, 0.5};
inline constexpr Colour kBlue = {0.18, 0.42, 0.69}, kTrack = {0.92, 0.93, 0.95};
// Pixels.
inline constexpr double kMargin = 24, kTextSize = 13, kTitleSize = 18;
inline constexpr double kTitleLine = 30, kTextLine = 22;

// A picture of width x height pixels, white at first, and the pen that draws on it.
class Canvas {
 public:
  Canvas(int width, int height);

  void fill(const Colour& c, double x, double y, double width, double height);
  // A line through points (x, y).
  void line(const Colour& c, double width, const std::vector<std::pair<double, double>>& points);
  double text_width(const std::string& text, double size);
  // (x, y): the left end of the base line.
  void write(const Colour& c, const std::string& text, double size, double x, double y);
  // Writes the PNG file. Throws Error{invalid_argument} when the file cannot be created,
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
