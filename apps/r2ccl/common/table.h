#pragma once
// Text in aligned columns.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/r2ccl/common/console.h"

namespace r2ccl::apps {

enum class Align : std::uint8_t { kLeft, kRight };

struct Cell {
  std::string text;
  Colour colour = Colour::kPlain;

  // Not explicit: rows are written as lists of text.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Cell(std::string content, Colour painted = Colour::kPlain) : text(std::move(content)), colour(painted) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Cell(const char* content) : text(content) {}
};

// Columns as seen on a terminal: UTF-8 sequences count as one.
std::size_t columns_of(std::string_view text);

class Table final {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells at the end are empty.
  void add(std::vector<Cell> row);
  // A title line and the rows; two blanks between columns, `indent` before the first, none at the end of a line.
  std::string text(const Console& console, std::size_t indent = 0) const;

 private:
  std::string row_text(const Console& console, const std::vector<Cell>& row,
                       const std::vector<std::size_t>& widths) const;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace r2ccl::apps
