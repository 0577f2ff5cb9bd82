// Tables as CSV (RFC 4180). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mgpu::kubectl {

// A text from the cluster as one field: without control characters and marks of direction, quoted
// where it must be, and with ' in front if a spreadsheet would take it for a formula.
std::string csv_text(std::string_view text);

// A line of fields, each of csv_text() or a number, with the line end of RFC 4180.
std::string csv_line(const std::vector<std::string>& fields);

}  // namespace mgpu::kubectl
