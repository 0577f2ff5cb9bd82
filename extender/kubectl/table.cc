#include "extender/kubectl/table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

constexpr std::int64_t kBarColumns = 10;
constexpr std::size_t kGap = 3;  // blanks between columns, as in kubectl

// The columns that `text` takes, if each character takes one.
std::size_t columns_of(const std::string& text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; };
  return static_cast<std::size_t>(std::ranges::count_if(text, begins));
}

// A cell as it is shown, without color.
std::string shown(const Cell& cell, bool terminal) {
  const std::string text =
      cell.text.empty() ? "-" : sanitize_for_terminal(cell.text, kShownSentenceMax);
  return terminal && cell.fill ? bar(*cell.fill) + " " + text : text;
}

}  // namespace

std::int64_t nearest(double value) {
  constexpr double kMost = 1e15;
  return std::isfinite(value) ? std::llround(std::clamp(value, 0.0, kMost)) : 0;
}

std::string bar(const Fill& fill) {
  const std::int64_t part = std::clamp<std::int64_t>(fill.part, 0, std::max(fill.whole, {}));
  std::int64_t full = fill.whole > 0 ? part * kBarColumns / fill.whole : 0;
  // A bar is full only if everything is taken, and empty only if nothing is.
  if (full == 0 && part > 0) full = 1;
  std::string text = "[";
  for (std::int64_t i = 0; i < kBarColumns; ++i) text += i < full ? '#' : '.';
  return text + "]";
}

Color color_of(const Fill& fill) {
  if (fill.whole <= 0) return Color::kNone;
  if (fill.part >= fill.whole) return Color::kRed;
  return fill.part >= fill.whole - fill.whole / 4 ? Color::kYellow : Color::kGreen;
}

void Table::add(std::vector<Cell> row) {
  MGPU_CHECK(row.size() == columns_.size(), "a cell for each column");
  rows_.push_back(std::move(row));
}

std::string Table::text(bool wide, bool terminal) const {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (!columns_[i].hidden && (wide || !columns_[i].wide)) chosen.push_back(i);
  }
  std::vector<std::vector<Cell>> lines(1);
  for (const Column& column : columns_) lines.front().push_back({column.title});
  lines.insert(lines.end(), rows_.begin(), rows_.end());
  std::vector<std::size_t> widths(columns_.size());
  for (const auto& line : lines) {
    for (const std::size_t i : chosen)
      widths[i] = std::max(widths[i], columns_of(shown(line[i], terminal)));
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (const std::size_t i : chosen) {
      const std::string cell = shown(line[i], terminal);
      const std::string blanks(widths[i] - columns_of(cell), ' ');
      const Color color = line[i].color;
      if (columns_[i].right && terminal && line[i].fill) {
        // Bars begin at the same column, and numbers end at the same one.
        const std::string drawn = bar(*line[i].fill);
        text += colored(drawn + blanks + cell.substr(drawn.size()), color, terminal);
      } else if (columns_[i].right) {
        text += blanks + colored(cell, color, terminal);
      } else {
        text += colored(cell, color, terminal) + blanks;
      }
      text.append(kGap, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

}  // namespace mgpu::kubectl
