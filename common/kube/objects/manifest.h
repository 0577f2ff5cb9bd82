// Kubernetes objects in YAML or JSON, and the pods in them: Pods, the templates of Deployments,
// ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, Jobs, CronJobs and PodTemplates,
// also in Lists. A kind of another group, such as a Job of Volcano, has no pods that are read.
// Pure, except for read_manifest_file().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/yaml/value.h"

namespace mgpu::kube {

// One object of a manifest, which must exist as long as this.
struct ManifestObject {
  yaml::Value* object = nullptr;
  std::size_t document = 0;  // from 1
  std::string kind{};        // empty: none, or of a group that is not Kubernetes' own
  bool has_pods = false;
  yaml::Value* pod = nullptr;  // of those with pods: the Pod or the template, null if it is missing

  // "Deployment team/web", "Job train- of batch.volcano.sh/v1alpha1", "Service in document 2".
  std::string name() const;
};

struct Manifest {
  std::vector<yaml::Value> documents;
  std::vector<ManifestObject> objects;  // also those in Lists, in their order
};

// Errors: those of yaml::read_documents(), a document is no object, the items of a List are
// missing.
Result<Manifest> read_manifest(std::string_view text);

// The Pod of an object with pods, as its controller makes it but for the name, which is that of the
// object, or the prefix in generateName. Errors: the name, the template or its spec is missing.
Result<yaml::Value> pod_of(const ManifestObject& owner);

// How many of them the object makes at once: the replicas, or what is left of a Job. A DaemonSet
// counts as one, for one node. Errors: no whole number.
Result<std::int64_t> pods_wanted(const ManifestObject& owner);

// The sentence that names the objects without pods but those of the kind `also_read`; empty for
// none.
std::string not_read(const Manifest& manifest, std::string_view also_read = "");

// The text of a file or pipe, or of standard input for "-". Errors: it cannot be read, or has over
// kManifestBytesMax bytes.
Result<std::string> read_manifest_file(const std::string& path);

}  // namespace mgpu::kube
