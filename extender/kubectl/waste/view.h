// What `kubectl mgpu waste` prints. Pure.
#pragma once

#include <string>
#include <vector>

#include "extender/kubectl/output.h"
#include "extender/kubectl/waste/summary.h"

namespace mgpu::kubectl {

View waste_view(const std::vector<WasteRow>& rows, const UseFacts& facts, WasteBy by,
                bool with_namespace);

// "From Prometheus, ...": where the numbers come from, and since when. One line.
std::string source_text(const UseFacts& facts);
// The sums, on one line.
std::string total_text(const std::vector<WasteRow>& rows);

// All rows with all columns. Numbers have a
// point, and hours three decimals.
std::string waste_csv(const std::vector<WasteRow>& rows, const UseFacts& facts);

}  // namespace mgpu::kubectl
