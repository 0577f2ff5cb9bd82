// The output of `kubectl mgpu doctor`. Pure.
#pragma once

#include <string>
#include <vector>

#include "extender/kubectl/doctor/finding.h"

namespace mgpu::kubectl {

// One line for each finding, and one for its remedy:
//
//   STATUS   CHECK       FINDING
//   ok       api-server  the API server answers, and has version v1.36.3
//   error    nodes       no mgpu-device-plugin runs on the node [gpu-1, gpu-2 and 5 more]
//                        -> ...
//
// Texts from the cluster are sanitized (console.h).
std::string report_table(const std::vector<CheckReport>& reports, bool colors);

//   {"healthy": false,
//    "findings": [{"check", "status", "message", "remedy"?, "objects"?: [name*]}*]}
//
// In ASCII: every other character is escaped.
std::string report_json(const std::vector<CheckReport>& reports);

}  // namespace mgpu::kubectl
