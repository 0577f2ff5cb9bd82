#include "common/kube/memory/object.h"

#include <array>
#include <utility>

#include "common/base/text.h"
#include "common/contract/quantity.h"

namespace mgpu::kube {
namespace {

using Problem = std::optional<ObjectProblem>;

Problem malformed(std::string_view path, std::string_view expected) {
  return ObjectProblem{true, std::string(path) + ": must be " + std::string(expected)};
}

Problem check_text(const Json& object, std::string_view path) {
  const Json& value = member_at(object, path);
  if (value.is_null() || value.is_string()) return {};
  return malformed(path, "a string");
}

Problem check_object(const Json& object, std::string_view path) {
  const Json& value = member_at(object, path);
  if (value.is_null() || value.is_object()) return {};
  return malformed(path, "an object");
}

Problem check_texts(const Json& object, std::string_view path) {
  if (const Problem problem = check_object(object, path)) return problem;
  for (const auto& value : member_at(object, path)) {
    if (!value.is_string()) return malformed(path, "a map of strings");
  }
  return {};
}

Problem check_quantities(const Json& holder, const std::string& path, std::string_view name) {
  const Json& amounts = member(holder, name);
  if (amounts.is_null()) return {};
  if (!amounts.is_object()) return malformed(path + std::string(name), "an object");
  for (const auto& [resource, amount] : amounts.items()) {
    if (amount.is_string() || amount.is_number() || amount.is_null()) continue;
    return malformed(path + std::string(name) + "[" + std::string(cut_text(resource, 100)) + "]",
                     "a quantity");
  }
  return {};
}

Problem check_container(const Json& container, const std::string& path) {
  if (!container.is_object()) return malformed(path, "an object");
  for (const std::string_view name : {"name", "image", "restartPolicy"}) {
    if (check_text(container, name)) return malformed(path + "." + std::string(name), "a string");
  }
  if (check_object(container, "resources")) return malformed(path + ".resources", "an object");
  const Json& resources = member(container, "resources");
  if (auto problem = check_quantities(resources, path + ".resources.", "limits")) return problem;
  return check_quantities(resources, path + ".resources.", "requests");
}

Problem check_containers(const Json& object, std::string_view list) {
  const Json& containers = member(member(object, "spec"), list);
  if (containers.is_null()) return {};
  const std::string path = "spec." + std::string(list);
  if (!containers.is_array()) return malformed(path, "an array");
  for (std::size_t i = 0; i < containers.size(); ++i) {
    if (auto problem = check_container(containers[i], path + "[" + std::to_string(i) + "]")) {
      return problem;
    }
  }
  return {};
}

constexpr std::array<std::string_view, 2> kContainerLists{"initContainers", "containers"};

Problem make_canonical(Json& amounts) {
  for (auto& amount : amounts) {
    const std::string text = amount.is_string() ? amount.get<std::string>() : amount.dump();
    const auto quantity = canonical_quantity(amount.is_null() ? "0" : text);
    if (!quantity) {
      return ObjectProblem{true,
                           "quantities must match the regular expression "
                           "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"};
    }
    amount = quantity->text;
  }
  return {};
}

// The object's member, where it is there.
Json* find(Json& object, std::string_view name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void set_default(Json& object, const char* name, Json value) {
  if (!find(object, name)) object[name] = std::move(value);
}

Problem default_container(Json& container) {
  Json* const resources = find(container, "resources");
  if (resources == nullptr) return {};
  for (const char* const name : {"limits", "requests"}) {
    Json* const amounts = find(*resources, name);
    if (amounts == nullptr) continue;
    if (auto problem = make_canonical(*amounts)) return problem;
  }
  const Json* const asked = find(*resources, "limits");
  if (asked == nullptr) return {};
  const Json copy = *asked;
  set_default(*resources, "requests", Json::object());
  for (const auto& [resource, amount] : copy.items()) {
    set_default((*resources)["requests"], resource.c_str(), amount);
  }
  return {};
}

Problem default_pod(Json& pod) {
  set_default(pod, "spec", Json::object());
  set_default(pod, "status", Json::object());
  Json& spec = pod["spec"];
  for (const std::string_view list : kContainerLists) {
    Json* const containers = find(spec, list);
    if (containers == nullptr) continue;
    for (auto& container : *containers) {
      if (auto problem = default_container(container)) return problem;
    }
  }
  set_default(spec, "restartPolicy", "Always");
  set_default(spec, "schedulerName", "default-scheduler");
  set_default(spec, "terminationGracePeriodSeconds", 30);
  set_default(spec, "priority", 0);
  set_default(pod["status"], "phase", "Pending");
  return {};
}

Problem default_node(Json& node) {
  set_default(node, "spec", Json::object());
  set_default(node, "status", Json::object());
  Json& status = node["status"];
  for (const char* const name : {"capacity", "allocatable"}) {
    Json* const amounts = find(status, name);
    if (amounts == nullptr) continue;
    if (auto problem = make_canonical(*amounts)) return problem;
  }
  if (const Json* const capacity = find(status, "capacity")) {
    set_default(status, "allocatable", Json(*capacity));
  }
  return {};
}

std::string field_text(const Json& object, std::string_view path) {
  const Json& value = member_at(object, path);
  if (value.is_string()) return value.get<std::string>();
  return path == "spec.unschedulable" ? (value == Json(true) ? "true" : "false") : std::string();
}

}  // namespace

std::optional<ObjectProblem> check_types(const Json& object) {
  if (!object.is_object()) return malformed("the body", "an object");
  for (const std::string_view path : {"metadata", "spec", "status"}) {
    if (auto problem = check_object(object, path)) return problem;
  }
  for (const std::string_view path :
       {"kind", "apiVersion", "metadata.name", "metadata.namespace", "metadata.uid",
        "metadata.generateName", "metadata.resourceVersion", "spec.nodeName", "spec.schedulerName",
        "status.phase"}) {
    if (auto problem = check_text(object, path)) return problem;
  }
  for (const std::string_view path : {"metadata.annotations", "metadata.labels"}) {
    if (auto problem = check_texts(object, path)) return problem;
  }
  for (const std::string_view list : kContainerLists) {
    if (auto problem = check_containers(object, list)) return problem;
  }
  const Json& status = member(object, "status");
  if (auto problem = check_quantities(status, "status.", "capacity")) return problem;
  return check_quantities(status, "status.", "allocatable");
}

std::optional<ObjectProblem> set_defaults(const ServedKind& kind, Json& object) {
  if (kind.kind == "Pod") return default_pod(object);
  if (kind.kind == "Node") return default_node(object);
  return {};
}

StoredObject to_stored(const ServedKind& kind, const Json& object, std::uint64_t version) {
  StoredObject stored;
  const Json& metadata = member(object, "metadata");
  stored.fields = {text_at(metadata, "name"), text_at(metadata, "namespace")};
  for (const std::string_view field : kind.fields) {
    stored.fields.push_back(field_text(object, field));
  }
  stored.key = object_key(stored.fields[1], stored.fields[0]);
  stored.uid = text_at(metadata, "uid");
  stored.version = version;
  stored.text = object.dump();
  return stored;
}

std::string object_key(std::string_view name_space, std::string_view name) {
  std::string key(name_space);
  if (!key.empty()) key += '/';
  return key.append(name);
}

}  // namespace mgpu::kube
