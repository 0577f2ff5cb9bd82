// Which records count: a share is free only when the API server and kubelet both say that its pod
// has ended. Pure.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

// What was heard just now.
struct RecordLiveness {
  // The API server has listed this node's pods, and the pod is not among them or has finished.
  std::function<bool(const PodUid&)> gone_at_api_server;
  // kubelet answered with the pods that may still run.
  bool kubelet_answered = false;
  std::set<PodRef> at_kubelet;
  // The API server has another pod of this name on this node: kubelet, which gives names alone,
  // means that one. Empty: that is not known.
  std::function<bool(const PodRef&, const PodUid&)> remade_at_api_server = {};
};

// Bound records whose pods have ended by both accounts.
std::vector<Record> ended(const std::vector<Record>& records, const RecordLiveness& presence);
// The others.
std::vector<Record> counting(const std::vector<Record>& records, const RecordLiveness& presence);

}  // namespace mgpu::plugin
