#pragma once

#include <string>
#include <vector>

namespace strata {

enum class Align : unsigned char { left, right };

// Rows of text as columns two spaces apart, each as wide as its widest cell (counted in code
// points). No blanks at the end of a line.
class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns (asserted).
  void add_row(std::vector<std::string> cells);
  // The titles and the rows, each line with its newline.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace strata
