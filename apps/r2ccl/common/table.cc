#include "apps/r2ccl/common/table.h"

#include <algorithm>

#include "base/assert.h"

namespace r2ccl::apps {

std::size_t columns_of(std::string_view text) {
  const auto starts_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  return static_cast<std::size_t>(std::ranges::count_if(text, starts_character));
}

void Table::add(std::vector<Cell> row) {
  R2CCL_ASSERT(row.size() <= columns_.size(), "a row has no more cells than the table columns");
  rows_.push_back(std::move(row));
}

std::string Table::text(const Console& console, std::size_t indent) const {
  std::vector<Cell> titles;
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) {
    titles.emplace_back(column.title, Colour::kDim);
    widths.push_back(columns_of(column.title));
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i].text));
  }
  const std::string margin(indent, ' ');
  std::string out = margin + row_text(console, titles, widths);
  for (const auto& row : rows_) out += margin + row_text(console, row, widths);
  return out;
}

std::string Table::row_text(const Console& console, const std::vector<Cell>& row,
                            const std::vector<std::size_t>& widths) const {
  std::string out;
  std::size_t owed = 0;  // blanks, written only when something follows
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::size_t pad = widths[i] - columns_of(row[i].text);
    if (columns_[i].align == Align::kRight) owed += pad;
    if (!row[i].text.empty()) {
      out += std::string(owed, ' ') + console.paint(row[i].colour, row[i].text);
      owed = 0;
    }
    if (columns_[i].align == Align::kLeft) owed += pad;
    owed += 2;
  }
  return out + "\n";
}

}  // namespace r2ccl::apps
