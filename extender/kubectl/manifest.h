// The Pod of a manifest file, for commands that ask what would happen to it.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "extender/kubectl/output.h"

namespace mgpu::kubectl {

struct Manifest {
  std::string kind;           // "Pod", "Deployment", ...
  std::int64_t replicas = 1;  // spec.replicas, or spec.parallelism of a Job
  Json pod;
};

// The only object in `text`, YAML or JSON, that has pods: a Pod, or a Deployment, ReplicaSet,
// StatefulSet, ReplicationController, Job or CronJob with a template. Objects of other kinds, such
// as a Service, are skipped. Errors: not YAML; no such object, or several; it has no spec. Pure.
Result<Manifest> read_manifest(const std::string& text);

// The same of a file, or of standard input for "-". Errors: it cannot be read, or has over
// kManifestBytesMax bytes.
Result<Manifest> load_manifest(const std::string& path);

}  // namespace mgpu::kubectl
