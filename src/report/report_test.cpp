#include <cairo.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "report/bar_chart.h"
#include "report/heat_map.h"
#include "report/line_chart.h"
#include "report/span_chart.h"
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

// On a logarithmic axis 1, 10 and 100 are equally far apart; what has no logarithm is left out.
TEST(LineChart, ALogarithmicAxis) {
  const ChartFile file;
  LineChart chart{"t", "", "x", "y", {{"steps", {-1, 0, 1, 10, 100}, {5, 5, 0, 1, 2}}}};
  chart.log_x = chart.y_from_zero = true;
  write_line_chart(chart, file.path);
  cairo_surface_t* picture = cairo_image_surface_create_from_png(file.path.c_str());
  ASSERT_EQ(cairo_surface_status(picture), CAIRO_STATUS_SUCCESS);
  const auto height_at = [&](int x) {
    for (int y = 90; y < cairo_image_surface_get_height(picture); ++y) {
      const unsigned char* pixel = cairo_image_surface_get_data(picture) +
                                   int64_t{y} * cairo_image_surface_get_stride(picture) + 4 * x;
      if (pixel[0] > 150 && pixel[2] < 80) return y;
    }
    return -1;
  };
  // From (84, 478) at x = 1 to (930, 84) at x = 100: straight, so half way up in the middle.
  const int middle = height_at(507), quarter = height_at(295);
  cairo_surface_destroy(picture);
  EXPECT_NEAR(middle, 281, 3);
  EXPECT_NEAR(quarter, 380, 3);
}

TEST(LineChart, TicksAreRoundAndCoverTheRange) {
  EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(-1, 1, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(round_ticks(1.4, 4.3, 6), (std::vector<double>{1.5, 2, 2.5, 3, 3.5, 4}));
}

// A falling line: blue at the left stands higher than at the right; points without a value do not
// matter.
TEST(LineChart, DrawsItsLineWhereTheValuesAre) {
  const ChartFile file;
  write_line_chart({"loss", "", "step", "nats", {{"train", {0, 1, 2, 3}, {4, NAN, 2, 1}}}},
                   file.path);
  cairo_surface_t* picture = cairo_image_surface_create_from_png(file.path.c_str());
  ASSERT_EQ(cairo_surface_status(picture), CAIRO_STATUS_SUCCESS);
  const auto first_blue = [&](int x) {
    for (int y = 90; y < cairo_image_surface_get_height(picture); ++y) {
      const unsigned char* pixel = cairo_image_surface_get_data(picture) +
                                   int64_t{y} * cairo_image_surface_get_stride(picture) + 4 * x;
      if (pixel[0] > 150 && pixel[2] < 80) return y;
    }
    return -1;
  };
  const int left = first_blue(200), right = first_blue(800);
  cairo_surface_destroy(picture);
  EXPECT_GT(left, 0);
  EXPECT_GT(right, left + 100);
  const LineChart uneven{"", "", "", "", {{"a", {1, 2}, {1}}}};
  EXPECT_THROW(write_line_chart(uneven, file.path), Error);
}

// Two rows: the upper one green on the right half, the lower one blue on the left.
TEST(SpanChart, DrawsSpansWhereTheyAre) {
  const ChartFile file;
  write_span_chart({"t", "", "s", "", {"a", "b"}, 2, {{0, 1, 5, 10}, {1, 0, 0, 5}}}, file.path);
  cairo_surface_t* picture = cairo_image_surface_create_from_png(file.path.c_str());
  ASSERT_EQ(cairo_surface_status(picture), CAIRO_STATUS_SUCCESS);
  const auto pixel = [&](int x, int y) {
    return cairo_image_surface_get_data(picture) +
           int64_t{y} * cairo_image_surface_get_stride(picture) + 4 * x;
  };
  const auto is_blue = [&](int x, int y) { return pixel(x, y)[0] > pixel(x, y)[1] + 30; };
  const auto is_green = [&](int x, int y) { return pixel(x, y)[1] > pixel(x, y)[0] + 30; };
  EXPECT_TRUE(is_green(900, 84 + 8));
  EXPECT_FALSE(is_green(300, 84 + 8));
  EXPECT_TRUE(is_blue(300, 84 + 24));
  EXPECT_FALSE(is_blue(900, 84 + 24));
  cairo_surface_destroy(picture);
  EXPECT_THROW(write_span_chart({"", "", "", "", {"a"}, 1, {{1, 0, 0, 1}}}, file.path), Error);
  EXPECT_THROW(write_span_chart({"", "", "", "", {"a"}, 1, {{0, 1, 0, 1}}}, file.path), Error);
}

// The line of large values would be flat at the bottom without a logarithmic axis.
TEST(LineChart, ALogarithmicAxisShowsDecades) {
  const ChartFile file;
  LineChart chart{"", "", "", "", {{"a", {0, 1, 2}, {1, 10, 100}}}};
  chart.log_y = true;
  write_line_chart(chart, file.path);
  cairo_surface_t* picture = cairo_image_surface_create_from_png(file.path.c_str());
  ASSERT_EQ(cairo_surface_status(picture), CAIRO_STATUS_SUCCESS);
  int middle = -1;
  for (int y = 90; y < cairo_image_surface_get_height(picture) && middle < 0; ++y) {
    const unsigned char* pixel = cairo_image_surface_get_data(picture) +
                                 int64_t{y} * cairo_image_surface_get_stride(picture) + 4 * 507;
    if (pixel[0] > 150 && pixel[2] < 80) middle = y;
  }
  cairo_surface_destroy(picture);
  // Half of the decades is half of the height, 84 to 478.
  EXPECT_NEAR(middle, 281, 6);
}

TEST(LineChart, APointAloneIsSeen) {
  const ChartFile file;
  write_line_chart({"", "", "", "", {{"a", {1}, {5}}, {"b", {0, 2}, {0, 10}}}}, file.path);
  cairo_surface_t* picture = cairo_image_surface_create_from_png(file.path.c_str());
  ASSERT_EQ(cairo_surface_status(picture), CAIRO_STATUS_SUCCESS);
  int blue = 0;
  for (int y = 90; y < cairo_image_surface_get_height(picture); ++y)
    for (int x = 0; x < cairo_image_surface_get_width(picture); ++x) {
      const unsigned char* pixel = cairo_image_surface_get_data(picture) +
                                   int64_t{y} * cairo_image_surface_get_stride(picture) + 4 * x;
      blue += pixel[0] > 150 && pixel[2] < 80;
    }
  cairo_surface_destroy(picture);
  EXPECT_GT(blue, 15);
}

// The darkest colour of a map is its largest number's, and it lies where the number does.
TEST(HeatMap, TheLargestNumberIsTheBluestSquare) {
  const ChartFile file;
  HeatMapPage page;
  page.title = "t";
  page.row_labels = page.column_labels = {"a", "b"};
  page.maps = {{"m", {0, 0, 1, 0}}};  // row b, column a
  write_heat_maps(page, file.path);
  cairo_surface_t* picture = cairo_image_surface_create_from_png(file.path.c_str());
  ASSERT_EQ(cairo_surface_status(picture), CAIRO_STATUS_SUCCESS);
  const int width = cairo_image_surface_get_width(picture);
  const int height = cairo_image_surface_get_height(picture);
  int64_t blue = 0, x_sum = 0, y_sum = 0;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const unsigned char* pixel = cairo_image_surface_get_data(picture) +
                                   int64_t{y} * cairo_image_surface_get_stride(picture) + 4 * x;
      if (pixel[0] < 120 || pixel[2] > 80) continue;
      ++blue;
      x_sum += x;
      y_sum += y;
    }
  cairo_surface_destroy(picture);
  ASSERT_GT(blue, 50);
  EXPECT_LT(x_sum / blue, width / 2);
  EXPECT_GT(y_sum / blue, height / 2);
  page.maps[0].values.pop_back();
  EXPECT_THROW(write_heat_maps(page, file.path), Error);
}

}  // namespace
}  // namespace strata
