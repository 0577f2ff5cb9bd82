// Drifts as JSON, for GET /drift. Pure.
//
//   {"node": s, "items": [{"kind": s, "namespace": s, "pod": s, "container": s, "card": n,
//                          "uuid": s, "since": RFC 3339 time, "message": s}], "leftOut": n}
//
// "namespace", "pod", "container", "card" and "uuid" are absent if they are not known.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "plugin/monitor/drift.h"

namespace mgpu::plugin {

struct DriftList {
  std::vector<Drift> found;
  std::size_t left_out = 0;  // others, for which there was no room
};

// `now` and `wall_time` are the same moment.
std::string drifts_json(const NodeName& node, const DriftList& drifts, Instant now,
                        std::chrono::sys_seconds wall_time);

}  // namespace mgpu::plugin
