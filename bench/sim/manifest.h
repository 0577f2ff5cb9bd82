// Kubernetes YAML -> the JSON of nodes and pods, as `kubectl apply` would send it.
//
// Any number of documents; Node, Pod, List, and Deployment, ReplicaSet, StatefulSet and Job, whose
// pods are made from their template (name-0, name-1, ...). What `kubectl get -o yaml` prints is
// accepted: fields that a server sets are left out. Home of yaml-cpp in this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/sim/limits.h"
#include "common/base/result.h"

namespace mgpu::sim {

struct Manifests {
  std::vector<std::string> nodes;  // JSON, in the file's order
  std::vector<std::string> pods;   // the same; metadata.namespace is always set
};

// `source` names the text in errors: "pods.yaml:12: ...". Errors: not YAML, a kind not listed
// above, no name, more than kSimObjectsMax objects.
Result<Manifests> read_manifests(std::string_view yaml, const std::string& source);

// Errors: unreadable or over kSimManifestBytesMax, and the above.
Result<Manifests> read_manifest_file(const std::string& path);

}  // namespace mgpu::sim
