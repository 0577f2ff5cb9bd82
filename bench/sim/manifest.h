// Reads nodes and pods from Kubernetes YAML, as JSON that can be sent to an API server.
//
// A text has any number of documents of the kinds Node, Pod and List, and of Deployment,
// ReplicaSet, StatefulSet and Job, whose pods are made from their template (name-0, name-1, ...).
// The output of `kubectl get -o yaml` is accepted; fields that a server sets are removed. Only this
// source uses yaml-cpp in this folder.
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
};

// `source` is the name of the text in errors, such as "pods.yaml:12: ...". Errors: the text is not
// YAML, a document has another kind or no name, there are more than kSimObjectsMax objects.
Result<Manifests> read_manifests(std::string_view yaml, const std::string& source);

// Errors: the file cannot be read or is longer than kSimManifestBytesMax, and those of
// read_manifests.
Result<Manifests> read_manifest_file(const std::string& path);

}  // namespace mgpu::sim
