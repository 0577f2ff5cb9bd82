#include "bench/apiserver/object.h"

#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "common/base/base64.h"
#include "common/base/text.h"
#include "common/contract/quantity.h"

namespace mgpu::kube {
namespace {

constexpr std::string_view kContainerLists[] = {"initContainers", "containers"};

[[noreturn]] void malformed(std::string_view path, std::string_view expected) {
  throw ObjectProblem{true, fmt::format("{}: must be {}", path, expected)};
}

// In these, `prefix` is the path of `holder` as messages show it. Null counts as absent.
void check_text(const Json& holder, std::string_view path, const std::string& prefix = "") {
  const Json& value = member_at(holder, path);
  if (!value.is_null() && !value.is_string()) malformed(prefix + std::string(path), "a string");
}

void check_object(const Json& holder, std::string_view path, const std::string& prefix = "") {
  const Json& value = member_at(holder, path);
  if (!value.is_null() && !value.is_object()) malformed(prefix + std::string(path), "an object");
}

void check_quantities(const Json& holder, std::string_view name, const std::string& prefix) {
  check_object(holder, name, prefix);
  for (const auto& [resource, amount] : member(holder, name).items()) {
    if (amount.is_string() || amount.is_number() || amount.is_null()) continue;
    malformed(fmt::format("{}{}[{}]", prefix, name, cut_text(resource, 100)), "a quantity");
  }
}

void check_container(const Json& container, const std::string& path) {
  if (!container.is_object()) malformed(path, "an object");
  for (const std::string_view name : {"name", "image", "restartPolicy"}) {
    check_text(container, name, path + ".");
  }
  check_object(container, "resources", path + ".");
  const Json& resources = member(container, "resources");
  check_quantities(resources, "limits", path + ".resources.");
  check_quantities(resources, "requests", path + ".resources.");
}

// The member of an object; null if it is absent.
Json* find(Json& object, std::string_view name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void set_default(Json& object, const char* name, Json value) {
  if (!find(object, name)) object[name] = std::move(value);
}

// Rewrites the quantities in the maps `names` of `holder`.
void make_canonical(Json& holder, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    Json* const amounts = find(holder, name);
    if (amounts == nullptr) continue;
    for (auto& amount : *amounts) {
      const std::string text = amount.is_string() ? amount.get<std::string>() : amount.dump();
      const auto quantity = canonical_quantity(amount.is_null() ? "0" : text);
      if (!quantity) {
        throw ObjectProblem{true,
                            "quantities must match the regular expression "
                            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"};
      }
      amount = quantity->text;
    }
  }
}

void default_container(Json& container) {
  Json* const resources = find(container, "resources");
  if (resources == nullptr) return;
  make_canonical(*resources, {"limits", "requests"});
  const Json limits = member(*resources, "limits");
  if (limits.is_null()) return;
  set_default(*resources, "requests", Json::object());
  for (const auto& [resource, amount] : limits.items()) {
    set_default((*resources)["requests"], resource.c_str(), amount);
  }
}

void default_pod(Json& pod) {
  Json& spec = pod["spec"];
  for (const std::string_view list : kContainerLists) {
    Json* const containers = find(spec, list);
    if (containers == nullptr) continue;
    for (auto& container : *containers) default_container(container);
  }
  set_default(spec, "restartPolicy", "Always");
  set_default(spec, "schedulerName", "default-scheduler");
  set_default(spec, "terminationGracePeriodSeconds", 30);
  set_default(spec, "priority", 0);
  set_default(pod["status"], "phase", "Pending");
}

// The message has no value, since it is a secret.
void check_secret_data(const Json& object) {
  check_object(object, "data");
  for (const auto& [key, value] : member(object, "data").items()) {
    if (value.is_null()) continue;
    const bool is_bytes = value.is_string() && decode_base64(value.get_ref<const std::string&>());
    if (!is_bytes) malformed(fmt::format("data[{}]", cut_text(key, 100)), "base64");
  }
}

void default_node(Json& node) {
  Json& status = node["status"];
  make_canonical(status, {"capacity", "allocatable"});
  const Json capacity = member(status, "capacity");
  if (!capacity.is_null()) set_default(status, "allocatable", capacity);
}

}  // namespace

void check_types(const Json& object) {
  if (!object.is_object()) malformed("the body", "an object");
  for (const std::string_view path :
       {"metadata", "spec", "status", "metadata.annotations", "metadata.labels"}) {
    check_object(object, path);
  }
  for (const std::string_view path :
       {"kind", "apiVersion", "metadata.name", "metadata.namespace", "metadata.uid",
        "metadata.generateName", "metadata.resourceVersion", "spec.nodeName", "spec.schedulerName",
        "status.phase"}) {
    check_text(object, path);
  }
  for (const std::string_view path : {"metadata.annotations", "metadata.labels"}) {
    for (const auto& value : member_at(object, path)) {
      if (!value.is_string()) malformed(path, "a map of strings");
    }
  }
  for (const std::string_view list : kContainerLists) {
    const Json& containers = member(member(object, "spec"), list);
    const std::string path = fmt::format("spec.{}", list);
    if (!containers.is_null() && !containers.is_array()) malformed(path, "an array");
    for (std::size_t i = 0; i < containers.size(); ++i) {
      check_container(containers[i], fmt::format("{}[{}]", path, i));
    }
  }
  const Json& status = member(object, "status");
  check_quantities(status, "capacity", "status.");
  check_quantities(status, "allocatable", "status.");
}

void set_defaults(const ServedKind& kind, Json& object) {
  if (kind.kind == "Secret") {
    check_secret_data(object);
    if (text_at(object, "type").empty()) object["type"] = "Opaque";
  }
  if (kind.kind != "Pod" && kind.kind != "Node") return;
  set_default(object, "spec", Json::object());
  set_default(object, "status", Json::object());
  if (kind.kind == "Pod") default_pod(object);
  if (kind.kind == "Node") default_node(object);
}

StoredObject to_stored(const ServedKind& kind, const Json& object, std::uint64_t version) {
  StoredObject stored;
  for (const std::string_view field : kind.fields) {
    const Json& value = member_at(object, field);
    const bool flag = field == "spec.unschedulable" && !value.is_string();
    stored.fields.push_back(flag ? (value == Json(true) ? "true" : "false")
                                 : text_at(object, field));
  }
  const std::string& name = stored.fields[0];
  const std::string& name_space = stored.fields[1];
  stored.key = name_space.empty() ? name : name_space + "/" + name;
  stored.uid = text_at(object, "metadata.uid");
  stored.version = version;
  stored.text = object.dump();
  return stored;
}

}  // namespace mgpu::kube
