// The answer of /inspect/simulate as text for people. Pure.
#pragma once

#include <string>

#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/inspected.h"
#include "extender/kubectl/output.h"

namespace mgpu::kubectl {

struct SimulationView {
  std::string outcome{};  // how many fit
  bool all_fit = false;
  View placements;
  Table reasons;  // why no more fit
};

// Errors: a member is missing or has a wrong type.
Result<SimulationView> simulate_view(const Json& answer);

void show_simulation(const SimulationView& view, const std::string& format, Console& console);

}  // namespace mgpu::kubectl
