// Tables in the style of kubectl. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "extender/kubectl/console.h"

namespace mgpu::kubectl {

struct Column {
  std::string title;
  bool wide = false;   // only in wide tables
  bool right = false;  // aligned to the right
  bool hidden = false;
};

// What a bar shows: this part of the whole. More than the whole is a full bar.
struct Fill {
  std::int64_t part = 0;
  std::int64_t whole = 0;
};

struct Cell {
  std::string text{};
  Color color = Color::kNone;
  std::optional<Fill> fill{};  // a bar before the text, on terminals
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell for each column.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }

  // Cells are sanitized, and empty ones are shown as "-". `terminal`: with colors and bars.
  std::string text(bool wide, bool terminal) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// The nearest whole number from zero, which a cell shows; zero for one that is not finite.
std::int64_t nearest(double value);

// "[####......]"
std::string bar(const Fill& fill);

// Green below three quarters, yellow below the whole, else red; none if there is nothing to
// fill.
Color color_of(const Fill& fill);

}  // namespace mgpu::kubectl
