#include "report/text_table.h"

#include <algorithm>

#include "base/error.h"

namespace strata {
namespace {

size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // no continuation byte
  }));
}

}  // namespace

void TextTable::add_row(std::vector<std::string> cells) {
  STRATA_ASSERT(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<size_t> widths;
  std::vector<std::string> titles;
  for (const Column& c : columns_) {
    widths.push_back(width_of(c.title));
    titles.push_back(c.title);
  }
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));

  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line += "  ";
      const std::string blanks(widths[i] - width_of(cells[i]), ' ');
      line += columns_[i].align == Align::left ? cells[i] + blanks : blanks + cells[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  add_line(titles);
  for (const auto& row : rows_) add_line(row);
  return out;
}

}  // namespace strata
