#include "bench/sim/manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/sim/limits.h"
#include "common/kube/objects/manifest.h"
#include "common/yaml/json.h"

namespace mgpu::sim {
namespace {

using Json = nlohmann::json;

Json without_server_fields(const yaml::Value& value) {
  Json object = Json::parse(yaml::json_of(value));
  for (const char* field : {"uid", "resourceVersion", "creationTimestamp", "managedFields",
                            "generation", "selfLink", "ownerReferences", "generateName"})
    object["metadata"].erase(field);
  return object;
}

class Collector {
 public:
  Result<void> add(const kube::ManifestObject& object) {
    if (object.kind == "Node") return add_node(object);
    if (!object.has_pods) return {};
    auto pod = kube::pod_of(object);
    if (!pod) return pod.error();
    const auto count = kube::pods_wanted(object);
    if (!count) return count.error();
    yaml::Value& metadata = *pod->find("metadata");
    if (metadata.text_of("namespace").empty()) metadata.set("namespace", yaml::quoted("default"));
    // As the API server makes a name of a prefix.
    std::string name = metadata.text_of("name");
    if ((*object.object)["metadata"].text_of("name").empty())
      name += std::to_string(manifests_.pods.size());
    for (std::int64_t i = 0; i < *count; ++i) {
      const bool is_pod = object.kind == "Pod";
      metadata.set("name", yaml::quoted(is_pod ? name : name + "-" + std::to_string(i)));
      if (auto added = add_object(*pod, manifests_.pods); !added) return added;
    }
    return {};
  }

  Manifests take() { return std::move(manifests_); }

 private:
  Result<void> add_node(const kube::ManifestObject& node) {
    const yaml::Value& metadata = (*node.object)["metadata"];
    if (metadata.is_map() && !metadata.text_of("name").empty())
      return add_object(*node.object, manifests_.nodes);
    return error(fmt::format("line {}: metadata.name of a Node is missing", node.object->line));
  }

  Result<void> add_object(const yaml::Value& object, std::vector<std::string>& list) {
    if (manifests_.nodes.size() + manifests_.pods.size() >= kSimObjectsMax)
      return error("has more than " + std::to_string(kSimObjectsMax) + " nodes and pods");
    list.push_back(without_server_fields(object).dump());
    return {};
  }

  Manifests manifests_;
};

}  // namespace

Result<Manifests> read_manifests(std::string_view yaml, const std::string& source) {
  const auto manifest = kube::read_manifest(yaml);
  if (!manifest) return error(source + ": " + manifest.error().message);
  Collector collector;
  for (const kube::ManifestObject& object : manifest->objects) {
    auto added = collector.add(object);
    if (!added) return error(source + ": " + added.error().message);
  }
  Manifests manifests = collector.take();
  if (const auto others = kube::not_read(*manifest, "Node"); !others.empty())
    manifests.not_read = source + ": " + others;
  return manifests;
}

Result<Manifests> read_manifest_file(const std::string& path) {
  const auto text = kube::read_manifest_file(path);
  if (!text) return text.error();
  return read_manifests(*text, path);
}

}  // namespace mgpu::sim
