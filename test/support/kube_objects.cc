#include "test/support/kube_objects.h"

#include <nlohmann/json.hpp>

namespace mgpu::test {

using Json = nlohmann::json;

std::string node_json(std::string_view name, const Amounts& capacity) {
  Json node = {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", name}}}};
  if (!capacity.empty()) node["status"]["capacity"] = capacity;
  return node.dump();
}

std::string pod_json(std::string_view name, const Amounts& limits) {
  Json container = {{"name", "app"}, {"image", "example.com/app"}};
  if (!limits.empty()) container["resources"]["limits"] = limits;
  const Json pod = {{"apiVersion", "v1"},
                    {"kind", "Pod"},
                    {"metadata", {{"name", name}}},
                    {"spec", {{"containers", Json::array({container})}}}};
  return pod.dump();
}

std::string binding_json(std::string_view pod, std::string_view node, std::string_view uid,
                         const std::map<std::string, std::string>& annotations) {
  Json binding = {{"apiVersion", "v1"},
                  {"kind", "Binding"},
                  {"metadata", {{"name", pod}}},
                  {"target", {{"kind", "Node"}, {"name", node}}}};
  if (!uid.empty()) binding["metadata"]["uid"] = uid;
  if (!annotations.empty()) binding["metadata"]["annotations"] = annotations;
  return binding.dump();
}

}  // namespace mgpu::test
