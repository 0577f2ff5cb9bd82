// Manifests whose pods are rewritten. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "extender/kubectl/convert/pod.h"

namespace mgpu::kubectl::convert {

struct Converted {
  std::string text;                   // the input, byte for byte, if there are no changes
  std::vector<std::string> changes;   // each names the object
  std::vector<std::string> refusals;  // if there are any, nothing was changed
};

// Rewrites the pods of all documents: Pods, the templates of Deployments, ReplicaSets,
// StatefulSets, DaemonSets, ReplicationControllers, Jobs, CronJobs and PodTemplates, and the items
// of Lists. Objects of other kinds are refused if they have a resource of another vocabulary.
// Errors: those of read_documents() and write_documents().
Result<Converted> convert_manifests(const std::string& text, const Settings& settings);

}  // namespace mgpu::kubectl::convert
