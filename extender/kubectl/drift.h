// What does not agree in a cluster, as the extender and the device plugins report it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "extender/kubectl/doctor/facts.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/inspected.h"
#include "extender/kubectl/output.h"

namespace mgpu::kubectl {

struct DriftItem {
  std::string kind;  // "ProcessWithoutShare"
  std::string node{};
  PodRef pod{};  // empty: of the node
  std::string container{};
  std::optional<std::int64_t> card{};
  std::string uuid{};
  std::optional<Time> since{};
  std::string message{};
  bool from_plugin = false;
};

struct ReadDrift {
  std::vector<DriftItem> items{};
  std::int64_t left_out = 0;  // items that the reporter has, and did not list
};

// The answer of a device plugin to GET /drift. `node` is where its pod runs; empty: the node that
// the answer names. Errors: it is not such an answer.
Result<ReadDrift> plugin_drift(const std::string& body, const std::string& node);

// From the first page of /inspect/cluster, and its nodes: pods whose annotations and cards do not
// agree, and cards with more shares than they have room for.
Result<ReadDrift> extender_drift(const Json& cluster, const std::vector<InspectedNode>& nodes);

// Which findings a command is about. Those of nodes have no namespace: pods that are named or
// selected leave them out, and a namespace does not.
struct DriftChoice {
  PodChoice pods{};
  std::string name_space{};                    // of the pods, unless all
  std::optional<std::set<PodRef>> selected{};  // the pods with the labels
  std::set<std::string> nodes{};               // empty: all
};

// The findings that are chosen, sorted by node and pod. Where a plugin reports what the extender
// does, with the container and card, only the plugin's finding is left.
std::vector<DriftItem> chosen_drift(std::vector<DriftItem> items, const DriftChoice& choice);

View drift_view(const std::vector<DriftItem>& items, bool with_namespace, Time now);

}  // namespace mgpu::kubectl
