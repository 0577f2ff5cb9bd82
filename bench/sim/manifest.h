// Nodes and pods of Kubernetes manifests, as JSON that can be sent to an API server.
//
// The pods of a Deployment and of other objects are made from their template (name-0, name-1, ...).
// The output of `kubectl get -o yaml` is accepted; fields that a server sets are removed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/sim/limits.h"
#include "common/base/result.h"

namespace mgpu::sim {

struct Manifests {
  std::vector<std::string> nodes;  // JSON, in the order of the file
  std::vector<std::string> pods;   // JSON, in the order of the file, with metadata.namespace
  std::string not_read{};          // the sentence that names other objects; empty for none
};

// `source` is the name of the text in sentences, such as "pods.yaml: line 12: ...". Errors: those
// of kube::read_manifest() and kube::pod_of(), there are more than kSimObjectsMax objects.
Result<Manifests> read_manifests(std::string_view yaml, const std::string& source);

// Errors: the file cannot be read, and those of read_manifests.
Result<Manifests> read_manifest_file(const std::string& path);

}  // namespace mgpu::sim
