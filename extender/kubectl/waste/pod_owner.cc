#include "extender/kubectl/waste/pod_owner.h"

#include "extender/kubectl/inspected.h"

namespace mgpu::kubectl {
namespace {

std::string deployment_of(const std::string& replica_set, const Json& metadata) {
  const Json labels = metadata.value("labels", Json::object());
  const std::string hash = labels.value("pod-template-hash", "");
  const std::string ending = "-" + hash;
  if (hash.empty() || !replica_set.ends_with(ending) || replica_set.size() == ending.size()) {
    return "";
  }
  return replica_set.substr(0, replica_set.size() - ending.size());
}

}  // namespace

Result<OwnedPod> read_owned_pod(const std::string& json) {
  const Json pod = Json::parse(json, nullptr, false);
  if (!pod.is_object()) return error("the Pod is not a JSON object");
  return read_answer<OwnedPod>("the owner of a Pod", [&] {
    const Json& metadata = pod.at("metadata");
    OwnedPod owned;
    owned.pod = {metadata.value("namespace", ""), metadata.at("name").get<std::string>()};
    owned.owner_kind = "Pod";
    owned.owner = owned.pod.name;
    for (const Json& owner : metadata.value("ownerReferences", Json::array())) {
      if (!owner.value("controller", false)) continue;
      owned.owner_kind = owner.at("kind").get<std::string>();
      owned.owner = owner.at("name").get<std::string>();
    }
    if (owned.owner_kind != "ReplicaSet") return owned;
    const std::string deployment = deployment_of(owned.owner, metadata);
    if (deployment.empty()) return owned;
    owned.owner_kind = "Deployment";
    owned.owner = deployment;
    return owned;
  });
}

}  // namespace mgpu::kubectl
