#include "extender/kubectl/waste/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "extender/kubectl/console.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {

namespace {

// Some spreadsheets split lines at other characters than the comma, and inside of quotes, too.
constexpr std::string_view kFieldSeparators = ",;|";
constexpr std::string_view kFormulaStarts = "=+-@";

// With ' in front of each part that a spreadsheet would take for a formula. Spreadsheets skip
// blanks and quotes before it.
std::string escape_csv_formula(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(kFieldSeparators, begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t first = part.find_first_not_of(" \"");
    if (first != part.npos && kFormulaStarts.find(part[first]) != kFormulaStarts.npos) out += '\'';
    out += part;
    if (end < text.size()) out += text[end];
    begin = end + 1;
  }
  return out;
}

}  // namespace

std::string csv_text(std::string_view text) {
  const std::string field = escape_csv_formula(sanitize_for_terminal(text, kShownSentenceMax));
  if (field.find_first_of(",;|\"\r\n") == field.npos) return field;
  std::string quoted = "\"";
  for (const char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string csv_line(const std::vector<std::string>& fields) {
  return fmt::format("{}\r\n", fmt::join(fields, ","));
}

}  // namespace mgpu::kubectl
