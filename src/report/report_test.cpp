#include <cairo.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "report/bar_chart.h"
#include "report/line_chart.h"
#include "report/text_table.h"

namespace strata {
namespace {

TEST(TextTable, AlignsByCodePointsAndLeavesNoBlanksAtTheEnd) {
  TextTable table({{"name", Align::left}, {"value", Align::right}, {"", Align::left}});
  table.add_row({"a", "1.5", "x"});
  table.add_row({"größe", "1234.5", ""});
  EXPECT_EQ(table.text(),
            "name    value\n"
            "a         1.5  x\n"
            "größe  1234.5\n");
}

TEST(TextTable, WithoutRowsItIsTheTitles) { EXPECT_EQ(TextTable({{"a"}, {"b"}}).text(), "a  b\n"); }

class ChartFile {
 public:
  ChartFile()
      : path(std::filesystem::temp_directory_path() /
             ("strata_chart_" + std::to_string(getpid()) + ".png")) {}
  ~ChartFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  ChartFile(const ChartFile&) = delete;
  ChartFile& operator=(const ChartFile&) = delete;
  std::filesystem::path path;
};

// Pixels of a row that are bar: blue well above red.
int blue_pixels(cairo_surface_t* picture, int y) {
  const unsigned char* row =
      cairo_image_surface_get_data(picture) + int64_t{y} * cairo_image_surface_get_stride(picture);
  int count = 0;
  for (int x = 0; x < cairo_image_surface_get_width(picture); ++x)
    count += row[4 * x] > 150 && row[4 * x + 2] < 80 ? 1 : 0;
  return count;
}

// Read back by cairo's own decoder (libpng): the longest blue line of each bar has its length.
TEST(BarChart, BarsAreAsLongAsTheirShares) {
  const ChartFile file;
  write_png({"title", "", "all", {{"half", 0.5, "1"}, {"none", NAN, "2"}, {"more", 7.0, "3"}}},
            file.path);
  cairo_surface_t* picture = cairo_image_surface_create_from_png(file.path.c_str());
  ASSERT_EQ(cairo_surface_status(picture), CAIRO_STATUS_SUCCESS);
  std::vector<int> lengths;
  for (int y = 0, last = 0; y < cairo_image_surface_get_height(picture); ++y) {
    const int length = blue_pixels(picture, y);
    if (length > 100 && last <= 100) lengths.push_back(length);
    last = length;
  }
  cairo_surface_destroy(picture);
  ASSERT_EQ(lengths.size(), 2u);
  EXPECT_NEAR(lengths[0], 210, 2);
  EXPECT_NEAR(lengths[1], 420, 2);
}

// A line of the first colour from corner to corner: it is in the left half at the bottom and in the
// right half at the top.
TEST(LineChart, LinesGoWhereTheirNumbersSay) {
  const ChartFile file;
  write_line_chart({.title = "t",
                    .x_label = "x",
                    .y_label = "y",
                    .lines = {{"rising", {{0, 0}, {NAN, 3}, {10, 5}}}}},
                   file.path);
  cairo_surface_t* picture = cairo_image_surface_create_from_png(file.path.c_str());
  ASSERT_EQ(cairo_surface_status(picture), CAIRO_STATUS_SUCCESS);
  const int width = cairo_image_surface_get_width(picture);
  int last_x = 0, rows = 0;
  // Below the legend, from the bottom up.
  for (int y = cairo_image_surface_get_height(picture) - 70; y > 140; y -= 20) {
    const unsigned char* row = cairo_image_surface_get_data(picture) +
                               int64_t{y} * cairo_image_surface_get_stride(picture);
    for (int x = 0; x < width; ++x) {
      if (row[4 * x] < 150 || row[4 * x + 2] > 40) continue;
      EXPECT_GT(x, last_x);
      last_x = x;
      ++rows;
      break;
    }
  }
  cairo_surface_destroy(picture);
  EXPECT_GT(rows, 10);
  EXPECT_GT(last_x, width / 2);
}

TEST(LineChart, MarksAreRoundNumbers) {
  EXPECT_EQ(axis_marks(10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(axis_marks(0.7, 8).size(), 8u);
  EXPECT_THROW(write_line_chart({.lines = std::vector<Line>(9)}, "x.png"), Error);
}

TEST(BarChart, WithoutBarsItIsAPictureAllTheSame) {
  const ChartFile file;
  write_png({"nothing", "measured", "all", {}}, file.path);
  EXPECT_GT(std::filesystem::file_size(file.path), 100u);
}

TEST(BarChart, NamesAFileThatCannotBeWritten) {
  try {
    write_png({"t", "", "all", {}}, "/no-such-folder/chart.png");
    FAIL() << "written";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("/no-such-folder/chart.png"), std::string::npos);
  }
  EXPECT_THROW(write_png({"t", "", "all", std::vector<Bar>(1001)}, "x.png"), Error);
}

}  // namespace
}  // namespace strata
