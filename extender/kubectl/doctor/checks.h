// The checks of `kubectl mgpu doctor`: from facts to findings. Pure. Where a fact is not known, the
// check says so, and the other checks go on.
#pragma once

#include <string>
#include <vector>

#include "extender/kubectl/doctor/facts.h"
#include "extender/kubectl/doctor/finding.h"

namespace mgpu::kubectl {

struct Check {
  const char* name;
  Findings (*run)(const Facts& facts);
};

// In the order of the output.
const std::vector<Check>& all_checks();
std::vector<CheckReport> run_checks(const Facts& facts);

Findings check_api_server(const Facts& facts);

}  // namespace mgpu::kubectl
