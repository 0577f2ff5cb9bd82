#include "extender/kubectl/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
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

constexpr std::size_t kCutColumnsMin = 12;  // of a column that is cut

// A cell as it is shown, without color.
std::string shown(const Cell& cell, bool with_bar, bool utf8) {
  const std::string text =
      cell.text.empty() ? "-" : sanitize_for_terminal(cell.text, kShownSentenceMax);
  return with_bar && cell.fill ? bar(*cell.fill, utf8) + " " + text : text;
}

// The first `columns` of a text, of which the last three are dots if it is longer.
std::string cut_to(const std::string& text, std::size_t columns) {
  if (columns_of(text) <= columns) return text;
  std::size_t end = 0;
  for (std::size_t left = columns - 2; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80;
    if (begins && --left == 0) break;
  }
  return text.substr(0, end) + "...";
}

// "MEMORY (MIB)" and "memory" as "memory".
std::string key_of(const std::string& title) {
  return lower_case(title.substr(0, title.find(' ')));
}

// 1234 of "1,234/5,000"; -1 for a text without a number.
double number_in(std::string text) {
  std::erase(text, ',');
  double number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The lines of a table as texts, and the widths of its columns.
struct Grid {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::size_t> widths;

  std::size_t width() const {
    return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
  }
};

Grid grid_of(const std::vector<const std::vector<Cell>*>& lines,
             const std::vector<std::size_t>& chosen, bool with_bars, bool utf8) {
  Grid grid{.lines = {}, .widths = std::vector<std::size_t>(chosen.size())};
  for (const auto* line : lines) {
    grid.lines.emplace_back();
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      grid.lines.back().push_back(shown((*line)[chosen[i]], with_bars, utf8));
      grid.widths[i] = std::max(grid.widths[i], columns_of(grid.lines.back().back()));
    }
  }
  return grid;
}

}  // namespace

std::int64_t nearest(double value) {
  constexpr double kMost = 1e15;
  return std::isfinite(value) ? std::llround(std::clamp(value, 0.0, kMost)) : 0;
}

std::string bar(const Fill& fill, bool utf8) {
  const std::int64_t part = std::clamp<std::int64_t>(fill.part, 0, std::max(fill.whole, {}));
  std::int64_t full = fill.whole > 0 ? part * kBarColumns / fill.whole : 0;
  // A bar is full only if everything is taken, and empty only if nothing is.
  if (full == 0 && part > 0) full = 1;
  std::string text;
  for (std::int64_t i = 0; i < kBarColumns; ++i) {
    const bool is_full = i < full;
    text += utf8 ? (is_full ? "\u25b0" : "\u25b1") : is_full ? "#" : ".";
  }
  return utf8 ? text : "[" + text + "]";
}

Color color_of(const Fill& fill) {
  if (fill.whole <= 0 || fill.part <= 0) return Color::kNone;
  return fill.part > fill.whole ? Color::kRed : Color::kBlue;
}

void Table::add(std::vector<Cell> row) {
  MGPU_CHECK(row.size() == columns_.size(), "a cell for each column");
  rows_.push_back(std::move(row));
}

void Table::set_sum(std::vector<Cell> row) {
  MGPU_CHECK(row.size() == columns_.size(), "a cell for each column");
  sum_ = std::move(row);
}

Result<void> Table::sort_by(const std::string& column) {
  const auto found = std::ranges::find(columns_, key_of(column),
                                       [](const Column& one) { return key_of(one.title); });
  if (found == columns_.end() || found->hidden) {
    std::string names;
    for (const Column& one : columns_)
      if (!one.hidden) names += (names.empty() ? "" : ", ") + key_of(one.title);
    return error(fmt::format("--sort-by must be one of {}, found {}", names, in_quotes(column)));
  }
  const auto at = static_cast<std::size_t>(found - columns_.begin());
  std::ranges::stable_sort(rows_, [&](const std::vector<Cell>& a, const std::vector<Cell>& b) {
    if (!found->right) return a[at].text < b[at].text;
    return number_in(a[at].text) > number_in(b[at].text);
  });
  return {};
}

std::vector<std::size_t> Table::chosen_columns(bool wide) const {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (!columns_[i].hidden && (wide || !columns_[i].wide)) chosen.push_back(i);
  }
  return chosen;
}

std::string Table::text(const Look& look) const {
  const std::vector<std::size_t> chosen = chosen_columns(look.wide);
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.push_back({column.title});
  std::vector<const std::vector<Cell>*> lines;
  if (look.headers) lines.push_back(&titles);
  for (const auto& row : rows_) lines.push_back(&row);
  if (!sum_.empty() && rows_.size() > 1) lines.push_back(&sum_);
  bool with_bars = look.terminal;
  Grid grid = grid_of(lines, chosen, with_bars, look.utf8);
  if (look.width > 0 && with_bars && grid.width() > look.width) {
    with_bars = false;
    grid = grid_of(lines, chosen, with_bars, look.utf8);
  }
  while (look.width > 0 && grid.width() > look.width) {
    std::size_t widest = chosen.size();
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const bool is_wider = widest == chosen.size() || grid.widths[i] > grid.widths[widest];
      if (!columns_[chosen[i]].right && grid.widths[i] > kCutColumnsMin && is_wider) widest = i;
    }
    if (widest == chosen.size()) break;
    --grid.widths[widest];
  }
  std::string out;
  for (std::size_t row = 0; row < lines.size(); ++row) {
    std::string text;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const Cell& from = (*lines[row])[chosen[i]];
      const std::string cell = cut_to(grid.lines[row][i], grid.widths[i]);
      const std::string blanks(grid.widths[i] - columns_of(cell), ' ');
      if (columns_[chosen[i]].right && with_bars && from.fill) {
        // Bars begin at the same column, and numbers end at the same one.
        const std::string drawn = bar(*from.fill, look.utf8);
        text += colored(drawn, from.color, true) + blanks + cell.substr(drawn.size());
      } else if (columns_[chosen[i]].right) {
        text += blanks + colored(cell, from.color, look.terminal);
      } else {
        text += colored(cell, from.color, look.terminal) + blanks;
      }
      text.append(kGap, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

}  // namespace mgpu::kubectl
