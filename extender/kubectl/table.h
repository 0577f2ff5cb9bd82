// Tables in the style of kubectl. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
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
  // The row below all others, which is shown if there are several.
  void set_sum(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }
  // Sorts by the column whose title begins with `column`, whatever its case: numbers from the
  // highest, texts from the first. Errors: there is no such column.
  Result<void> sort_by(const std::string& column);

  struct Look {
    bool wide = false;
    bool terminal = false;  // with colors and bars
    bool headers = true;
    std::size_t width = 0;  // of the terminal; 0: no limit
    bool utf8 = false;      // bars of characters that ASCII does not have
  };
  // Cells are sanitized, and empty ones are shown as "-". If the lines are longer than the terminal
  // is wide, they have no bars, and then the widest texts are cut.
  std::string text(const Look& look) const;
  std::string text(bool wide, bool terminal) const {
    return text({.wide = wide, .terminal = terminal});
  }

 private:
  std::vector<std::size_t> chosen_columns(bool wide) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<Cell> sum_;
};

// The nearest whole number from zero, which a cell shows; zero for one that is not finite.
std::int64_t nearest(double value);

// "[####......]"
std::string bar(const Fill& fill, bool utf8 = false);

// Blue for what is taken, which is what cards are for; red if it is more than there is.
Color color_of(const Fill& fill);

}  // namespace mgpu::kubectl
