#include "extender/kubectl/waste/csv.h"

#include <fmt/format.h>

#include "extender/kubectl/console.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {

std::string csv_text(std::string_view text) {
  std::string field = harmless(text, kShownSentenceMax);
  // Spreadsheets skip blanks before a formula.
  const std::size_t first = field.find_first_not_of(' ');
  constexpr std::string_view kFormula = "=+-@";
  if (first != field.npos && kFormula.find(field[first]) != kFormula.npos) field.insert(0, "'");
  if (field.find_first_of(",\"\r\n") == field.npos) return field;
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
