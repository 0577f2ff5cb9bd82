#include "common/kube/object_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/kube/json_slices.h"
#include "common/kube/json_tree.h"
#include "common/limits.h"
#include "common/text.h"

namespace mgpu::kube {
namespace {

// Most of a pod's or node's text is of no interest here (managedFields, volumes, environments,
// images) and never becomes a tree. Depth counts objects and arrays from the root.
template <std::size_t N>
bool among(const std::string_view (&names)[N], std::string_view name) {
  for (const std::string_view candidate : names) {
    if (candidate == name) return true;
  }
  return false;
}

bool wanted_at_top(std::string_view name) {
  return among({"metadata", "spec", "status"}, name);
}

bool wanted_in_metadata(std::string_view name) {
  return among({"name", "namespace", "uid", "resourceVersion", "annotations", "labels",
                "deletionTimestamp", "creationTimestamp"},
               name);
}

bool wanted_of_pod(std::size_t depth, std::string_view name) {
  if (depth == 1) return wanted_at_top(name);
  if (depth == 2) {
    return wanted_in_metadata(name) ||
           among({"initContainers", "containers", "overhead", "nodeName", "schedulerName",
                  "priority", "phase", "startTime", "nominatedNodeName", "initContainerStatuses",
                  "containerStatuses"},
                 name);
  }
  // A container or its status: root, spec or status, array, object.
  return depth != 4 || among({"name", "resources", "restartPolicy", "containerID"}, name);
}

bool wanted_of_node(std::size_t depth, std::string_view name) {
  if (depth == 1) return wanted_at_top(name);
  if (depth == 2) {
    return wanted_in_metadata(name) ||
           among({"capacity", "allocatable", "unschedulable", "conditions"}, name);
  }
  // A condition: root, status, array, object.
  return depth != 4 || among({"type", "status", "reason", "message"}, name);
}

bool wanted_of_budget(std::size_t depth, std::string_view name) {
  if (depth == 1) return wanted_at_top(name);
  if (depth > 2) return true;
  return wanted_in_metadata(name) || among({"selector", "disruptionsAllowed"}, name);
}

bool wanted_of_status(std::size_t depth, std::string_view name) {
  return depth == 1 && among({"code", "reason", "message"}, name);
}

Metadata read_metadata(const JsonCursor& from) {
  Metadata metadata;
  metadata.name = from.text("name");
  metadata.space = from.text("namespace");
  metadata.uid = from.text("uid");
  metadata.resource_version = from.text("resourceVersion");
  metadata.annotations = from.texts("annotations");
  metadata.labels = from.texts("labels");
  metadata.being_deleted = !from.text("deletionTimestamp").empty();
  metadata.creation_timestamp = from.text("creationTimestamp");
  return metadata;
}

Container read_container(const JsonCursor& from) {
  Container container;
  container.name = from.text("name");
  const JsonCursor resources = from.object("resources");
  container.limits = resources.quantities("limits");
  container.requests = resources.quantities("requests");
  container.restart_always = from.text("restartPolicy") == "Always";
  return container;
}

std::vector<Container> read_containers(const JsonCursor& spec, std::string_view name) {
  std::vector<Container> containers;
  spec.each_object(
      name, [&](const JsonCursor& element) { containers.push_back(read_container(element)); });
  return containers;
}

std::vector<ContainerStatus> read_container_statuses(const JsonCursor& status) {
  std::vector<ContainerStatus> statuses;
  for (const std::string_view list : {"initContainerStatuses", "containerStatuses"}) {
    status.each_object(list, [&](const JsonCursor& element) {
      statuses.push_back({element.text("name"), element.text("containerID")});
    });
  }
  return statuses;
}

Pod read_pod(const JsonCursor& root) {
  const JsonCursor spec = root.object("spec");
  const JsonCursor status = root.object("status");
  Pod pod;
  pod.metadata = read_metadata(root.object("metadata"));
  pod.init_containers = read_containers(spec, "initContainers");
  pod.containers = read_containers(spec, "containers");
  pod.overhead = spec.quantities("overhead");
  pod.node_name = spec.text("nodeName");
  pod.scheduler_name = spec.text("schedulerName");
  pod.priority = spec.int32("priority");
  pod.phase = status.text("phase");
  pod.start_time = status.text("startTime");
  pod.nominated_node = status.text("nominatedNodeName");
  pod.container_statuses = read_container_statuses(status);
  return pod;
}

Node read_node(const JsonCursor& root) {
  const JsonCursor status = root.object("status");
  Node node;
  node.metadata = read_metadata(root.object("metadata"));
  node.capacity = status.quantities("capacity");
  node.allocatable = status.quantities("allocatable");
  status.each_object("conditions", [&](const JsonCursor& condition) {
    node.conditions.push_back({condition.text("type"), condition.text("status"),
                               condition.text("reason"), condition.text("message")});
  });
  node.unschedulable = root.object("spec").boolean("unschedulable");
  return node;
}

LabelSelector read_selector(const JsonCursor& from) {
  LabelSelector selector;
  selector.match_labels = from.texts("matchLabels");
  from.each_object("matchExpressions", [&](const JsonCursor& term) {
    selector.match_expressions.push_back(
        {term.text("key"), term.text("operator"), term.text_list("values")});
  });
  return selector;
}

PodDisruptionBudget read_budget(const JsonCursor& root) {
  const JsonCursor spec = root.object("spec");
  PodDisruptionBudget budget;
  budget.metadata = read_metadata(root.object("metadata"));
  if (spec.has("selector")) budget.selector = read_selector(spec.object("selector"));
  budget.disruptions_allowed = root.object("status").int32("disruptionsAllowed");
  return budget;
}

// The text of the JSON string `value`; empty where it is absent or null.
Result<std::string> read_text(std::string_view value, std::string_view path) {
  if (value.empty() || value == "null") return std::string();
  if (value.front() != '"') {
    return error(fmt::format("{} must be a string, is {}", path, in_quotes(value)));
  }
  if (value.find('\\') == std::string_view::npos) {
    return std::string(value.substr(1, value.size() - 2));
  }
  return unescape_json(value);
}

Result<std::vector<JsonMember>> read_object(std::string_view value, std::string_view path) {
  if (value.empty() || value == "null") return std::vector<JsonMember>();
  if (value.front() != '{') {
    return error(fmt::format("{} must be an object, is {}", path, in_quotes(value)));
  }
  return json_members(value);
}

Result<std::vector<std::string>> read_items(std::string_view value) {
  // Go writes an empty list as null or [].
  if (value == "null") return std::vector<std::string>();
  if (value.empty() || value.front() != '[') {
    return error(fmt::format("items must be an array, is {}", in_quotes(value)));
  }
  const auto elements = json_elements(value);
  if (!elements) return elements.error();
  for (std::size_t i = 0; i < elements->size(); ++i) {
    if ((*elements)[i].front() == '{') continue;
    return error(fmt::format("items[{}] must be an object, is {}", i, in_quotes((*elements)[i])));
  }
  return std::vector<std::string>(elements->begin(), elements->end());
}

Result<WatchLine::Kind> read_kind(std::string_view type) {
  using Kind = WatchLine::Kind;
  if (type == R"("ADDED")") return Kind::kAdded;
  if (type == R"("MODIFIED")") return Kind::kModified;
  if (type == R"("DELETED")") return Kind::kDeleted;
  if (type == R"("BOOKMARK")") return Kind::kBookmark;
  if (type == R"("ERROR")") return Kind::kError;
  return error(fmt::format("type must be ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, is {}",
                           in_quotes(type)));
}

// Finding one member of an object needs no tree of it.
Result<std::string> read_resource_version(std::string_view object) {
  const auto members = json_members(object);
  if (!members) return members.error();
  const auto metadata = read_object(json_member(*members, "metadata"), "object.metadata");
  if (!metadata) return metadata.error();
  return read_text(json_member(*metadata, "resourceVersion"), "object.metadata.resourceVersion");
}

// The text after the first `"<name>":"`, up to the next quote; empty where there is none. Names and
// versions have no escapes.
std::string first_text(std::string_view text, std::string_view name) {
  const std::string begin = fmt::format("\"{}\":\"", name);
  const std::size_t at = text.find(begin);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + begin.size());
  const std::size_t end = text.find('"');
  return std::string(text.substr(0, std::min(end, limits::kQuotedValueMax)));
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

Result<Pod> read_pod(std::string_view json) {
  return read_tree<Pod>(json, wanted_of_pod, [](const JsonCursor& root) { return read_pod(root); });
}

Result<Node> read_node(std::string_view json) {
  return read_tree<Node>(json, wanted_of_node,
                         [](const JsonCursor& root) { return read_node(root); });
}

Result<PodDisruptionBudget> read_pod_disruption_budget(std::string_view json) {
  return read_tree<PodDisruptionBudget>(json, wanted_of_budget, read_budget);
}

Result<ListPage> read_list_page(std::string_view json) {
  const auto members = json_members(json);
  if (!members) return members.error();
  const auto metadata = read_object(json_member(*members, "metadata"), "metadata");
  if (!metadata) return metadata.error();
  const auto version = read_text(json_member(*metadata, "resourceVersion"), "resourceVersion");
  if (!version) return version.error();
  // Without this check any JSON object would pass for an empty list, which deletes everything.
  if (version->empty()) return error("metadata.resourceVersion of the list is missing");
  const auto token = read_text(json_member(*metadata, "continue"), "metadata.continue");
  if (!token) return token.error();
  auto items = read_items(json_member(*members, "items"));
  if (!items) return items.error();
  return ListPage{*version, *token, std::move(*items)};
}

Result<WatchLine> read_watch_line(std::string_view json) {
  const auto members = json_members(json);
  if (!members) return members.error();
  const auto kind = read_kind(json_member(*members, "type"));
  if (!kind) return kind.error();
  const std::string_view object = json_member(*members, "object");
  if (object.empty() || object.front() != '{') {
    return error(fmt::format("object must be an object, is {}", in_quotes(object)));
  }
  WatchLine line{*kind, std::string(object), {}};
  if (*kind == WatchLine::Kind::kError) return line;
  auto version = read_resource_version(object);
  if (!version) return version.error();
  line.resource_version = std::move(*version);
  return line;
}

std::optional<LineBeginning> read_line_beginning(std::string_view line) {
  const std::string_view beginning = line.substr(0, limits::kWatchLineBytesKept);
  const std::size_t metadata = beginning.find("\"metadata\":{");
  if (metadata == std::string_view::npos) return std::nullopt;
  const std::string_view fields = beginning.substr(metadata);
  const std::string name = first_text(fields, "name");
  const std::string space = first_text(fields, "namespace");
  const std::string version = first_text(fields, "resourceVersion");
  if (name.empty() || !is_number(version)) return std::nullopt;
  return LineBeginning{json_escaped(space.empty() ? name : space + "/" + name), version};
}

Status read_status(std::string_view json) {
  const auto status = read_tree<Status>(json, wanted_of_status, [](const JsonCursor& root) {
    return Status{root.int32("code"), root.text("reason"), root.text("message")};
  });
  return status ? *status : Status{};
}

}  // namespace mgpu::kube
