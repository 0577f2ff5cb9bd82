#include "common/kube/objects/object_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "common/base/base64.h"
#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/kube/limits.h"
#include "common/kube/objects/json_value.h"
#include "common/kube/objects/object_fields.h"

namespace mgpu::kube {
namespace {

JsonField quantities(std::string_view name, StringMap& to) {
  return {name, [&to](JsonValue& from) { to = from.quantities(); }};
}

bool has_host_port(JsonValue& ports) {
  bool found = false;
  ports.elements([&](JsonValue& port) {
    std::int32_t host_port = 0;
    port.read({{"hostPort", host_port}});
    found = found || host_port != 0;
  });
  return found;
}

Container read_container(JsonValue& from) {
  Container container;
  std::string restart_policy;
  from.read({{"name", container.name},
             {"resources",
              [&](JsonValue& resources) {
                resources.read({quantities("limits", container.limits),
                                quantities("requests", container.requests)});
              }},
             {"restartPolicy", restart_policy},
             {"ports", [&](JsonValue& ports) { container.host_port = has_host_port(ports); }}});
  container.restart_always = restart_policy == "Always";
  return container;
}

JsonField containers(std::string_view name, std::vector<Container>& to) {
  return {name, [&to](JsonValue& from) { to = from.list(read_container); }};
}

bool has_member(JsonValue& from, std::string_view member) {
  bool found = false;
  from.members([&](std::string_view name, JsonValue& value) {
    if (name == member) found = value.kind() == JsonValue::Kind::kObject;
  });
  return found;
}

JsonField requests_in(std::string_view name, StringMap& to) {
  return {name, [&to](JsonValue& from) { from.read({quantities("requests", to)}); }};
}

// The two members of a status.
JsonField given_requests(std::optional<GivenResources>& to) {
  return {"resources", [&to](JsonValue& from) {
            if (from.kind() != JsonValue::Kind::kObject) return;
            if (!to) to.emplace();
            from.read({quantities("requests", to->requests)});
          }};
}

ContainerStatus read_container_status(JsonValue& from) {
  ContainerStatus status;
  StringMap allocated;
  from.read({{"name", status.name},
             {"containerID", status.id},
             given_requests(status.given),
             quantities("allocatedResources", allocated),
             {"state", [&](JsonValue& state) { status.running = has_member(state, "running"); }}});
  if (status.given) status.given->allocated = std::move(allocated);
  return status;
}

JsonField container_statuses(std::string_view name, std::vector<ContainerStatus>& to) {
  return {name, [&to](JsonValue& from) { to = from.list(read_container_status); }};
}

bool has_elements(JsonValue& from) {
  bool any = false;
  from.elements([&](JsonValue&) { any = true; });
  return any;
}

// The volumes that belong to the pod alone, or that every pod of the node can use.
bool is_own_volume(std::string_view member) {
  return member == "name" || member == "configMap" || member == "secret" || member == "emptyDir" ||
         member == "projected" || member == "downwardAPI" || member == "hostPath";
}

bool has_shared_volume(JsonValue& volumes) {
  bool found = false;
  volumes.elements([&](JsonValue& volume) {
    volume.members(
        [&](std::string_view member, JsonValue&) { found = found || !is_own_volume(member); });
  });
  return found;
}

// Whether any pod is required to be on the node, or not to be.
// The rules that need not hold; sets `any` if there is one.
JsonField preferred(bool& any) {
  return {"preferredDuringSchedulingIgnoredDuringExecution",
          [&any](JsonValue& terms) { any = has_elements(terms) || any; }};
}

bool requires_pods(JsonValue& affinity, bool& prefers) {
  bool required = false;
  affinity.read({{"requiredDuringSchedulingIgnoredDuringExecution",
                  [&](JsonValue& terms) { required = has_elements(terms); }},
                 preferred(prefers)});
  return required;
}

void read_spread_constraint(JsonValue& from, Pod& pod) {
  std::string unsatisfiable;
  from.read({{"whenUnsatisfiable", unsatisfiable}});
  pod.constrained = true;
  pod.has_preferences = pod.has_preferences || unsatisfiable == "ScheduleAnyway";
}

LabelRequirement read_requirement(JsonValue& from) {
  LabelRequirement term;
  from.read({{"key", term.key}, {"operator", term.op}, {"values", term.values}});
  return term;
}

JsonField requirements(std::string_view name, std::vector<LabelRequirement>& to) {
  return {name, [&to](JsonValue& from) { to = from.list(read_requirement); }};
}

NodeTerm read_node_term(JsonValue& from) {
  NodeTerm term;
  from.read(
      {requirements("matchExpressions", term.labels), requirements("matchFields", term.fields)});
  return term;
}

void read_node_affinity(JsonValue& from, NodeRules& rules, bool& prefers) {
  const auto read_required = [&](JsonValue& required) {
    if (required.kind() == JsonValue::Kind::kNull) return;
    auto& terms = rules.required.emplace();
    required.read(
        {{"nodeSelectorTerms", [&](JsonValue& list) { terms = list.list(read_node_term); }}});
  };
  from.read(
      {{"requiredDuringSchedulingIgnoredDuringExecution", read_required}, preferred(prefers)});
}

Toleration read_toleration(JsonValue& from) {
  Toleration toleration;
  from.read({{"key", toleration.key},
             {"operator", toleration.op},
             {"value", toleration.value},
             {"effect", toleration.effect}});
  return toleration;
}

void read_affinity(JsonValue& from, Pod& pod) {
  const auto pods = [&pod](bool& required) {
    return [&](JsonValue& rules) { required = requires_pods(rules, pod.has_preferences); };
  };
  from.read({{"nodeAffinity",
              [&pod](JsonValue& rules) {
                read_node_affinity(rules, pod.node_rules, pod.has_preferences);
              }},
             {"podAffinity", pods(pod.affinity)},
             {"podAntiAffinity", pods(pod.anti_affinity)}});
  pod.constrained = pod.constrained || pod.affinity || pod.anti_affinity;
}

void read_pod_spec(JsonValue& from, Pod& pod) {
  const auto constrains = [&pod](bool (*read)(JsonValue&)) {
    return [&pod, read](JsonValue& value) { pod.constrained = read(value) || pod.constrained; };
  };
  from.read({containers("initContainers", pod.init_containers),
             containers("containers", pod.containers),
             quantities("overhead", pod.overhead),
             requests_in("resources", pod.requests),
             {"nodeName", pod.node_name},
             {"schedulerName", pod.scheduler_name},
             {"priority", pod.priority},
             {"preemptionPolicy",
              [&pod](JsonValue& policy) { pod.never_preempts = policy.text() == "Never"; }},
             {"nodeSelector", pod.node_rules.selector},
             {"tolerations",
              [&](JsonValue& list) { pod.node_rules.tolerations = list.list(read_toleration); }},
             {"affinity", [&pod](JsonValue& affinity) { read_affinity(affinity, pod); }},
             {"schedulingGates", [&pod](JsonValue& gates) { pod.gated = has_elements(gates); }},
             {"schedulingGroup",
              [&pod](JsonValue& group) {
                group.read({{"podGroupName", pod.pod_group}});
              }},
             {"topologySpreadConstraints",
              [&pod](JsonValue& all) {
                all.elements([&pod](JsonValue& one) { read_spread_constraint(one, pod); });
              }},
             {"resourceClaims", constrains(has_elements)},
             {"volumes", constrains(has_shared_volume)}});
}

// Whether the condition PodResizePending has the reason Infeasible.
bool is_resize_infeasible(JsonValue& conditions) {
  std::optional<bool> infeasible;
  conditions.elements([&](JsonValue& condition) {
    std::string type;
    std::string reason;
    condition.read({{"type", type}, {"reason", reason}});
    if (type == kResizePending && !infeasible) infeasible = reason == kResizeInfeasible;
  });
  return infeasible.value_or(false);
}

void read_pod_status(JsonValue& from, Pod& pod) {
  std::vector<ContainerStatus> init;
  std::vector<ContainerStatus> apps;
  StringMap allocated;
  from.read({{"phase", pod.phase},
             {"startTime", pod.start_time},
             {"nominatedNodeName", pod.nominated_node},
             {"conditions",
              [&pod](JsonValue& all) { pod.resize_infeasible = is_resize_infeasible(all); }},
             given_requests(pod.given),
             quantities("allocatedResources", allocated),
             container_statuses("initContainerStatuses", init),
             container_statuses("containerStatuses", apps)});
  std::ranges::move(apps, std::back_inserter(init));
  pod.container_statuses = std::move(init);
  if (pod.given) pod.given->allocated = std::move(allocated);
}

Condition read_condition(JsonValue& from) {
  Condition condition;
  from.read({{"type", condition.type},
             {"status", condition.status},
             {"reason", condition.reason},
             {"message", condition.message}});
  return condition;
}

Taint read_taint(JsonValue& from) {
  Taint taint;
  from.read({{"key", taint.key},
             {"value", taint.value},
             {"effect", taint.effect},
             {"timeAdded", taint.time_added}});
  return taint;
}

void read_node_status(JsonValue& from, Node& node) {
  from.read(
      {quantities("capacity", node.capacity),
       quantities("allocatable", node.allocatable),
       {"conditions", [&](JsonValue& list) { node.conditions = list.list(read_condition); }}});
}

std::optional<LabelSelector> read_selector(JsonValue& from) {
  if (from.kind() == JsonValue::Kind::kNull) return std::nullopt;
  LabelSelector selector;
  from.read({{"matchLabels", selector.match_labels}, {"matchExpressions", [&](JsonValue& terms) {
                                                        selector.match_expressions =
                                                            terms.list(read_requirement);
                                                      }}});
  return selector;
}

// The text after the first `"<name>":"`, up to the next quote; empty if there is none. Names and
// versions have no escapes.
std::string first_text(std::string_view text, std::string_view name) {
  const std::string begin = fmt::format("\"{}\":\"", name);
  const std::size_t at = text.find(begin);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + begin.size());
  const std::size_t end = text.find('"');
  return std::string(text.substr(0, std::min(end, kQuotedValueMax)));
}

// The text from `"metadata":{` on; empty if this is not near the beginning.
std::string_view metadata_at_beginning(std::string_view text) {
  const std::string_view beginning = text.substr(0, kWatchLineBytesKept);
  const std::size_t metadata = beginning.find("\"metadata\":{");
  return metadata == std::string_view::npos ? "" : beginning.substr(metadata);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

Result<Pod> read_pod(std::string_view json) {
  Pod pod;
  pod.json_bytes = json.size();
  const auto read = read_object(json, [&](JsonValue& root) {
    root.read({metadata_of(pod.metadata),
               {"spec", [&](JsonValue& spec) { read_pod_spec(spec, pod); }},
               {"status", [&](JsonValue& status) { read_pod_status(status, pod); }}});
  });
  if (!read) return read.error();
  return pod;
}

Result<PodScheduling> read_pod_scheduling(std::string_view json) {
  PodScheduling pod;
  const auto read_gate = [&pod](JsonValue& gate) {
    gate.read({{"name", pod.gates.emplace_back()}});
  };
  const auto read_scheduled = [&pod](JsonValue& from) {
    Condition condition;
    std::string since;
    from.read({{"type", condition.type},
               {"status", condition.status},
               {"reason", condition.reason},
               {"message", condition.message},
               {"lastTransitionTime", since}});
    if (condition.type != "PodScheduled") return;
    pod.scheduled = std::move(condition);
    pod.since = std::move(since);
  };
  const auto read_metadata = [&](JsonValue& from) {
    from.read({{"creationTimestamp", pod.created}});
  };
  const auto read_spec = [&](JsonValue& from) {
    from.read({{"schedulingGates", [&](JsonValue& list) { list.elements(read_gate); }}});
  };
  const auto read_conditions = [&](JsonValue& from) {
    from.read({{"conditions", [&](JsonValue& list) { list.elements(read_scheduled); }}});
  };
  const auto read = read_object(json, [&](JsonValue& root) {
    root.read({{"metadata", read_metadata}, {"spec", read_spec}, {"status", read_conditions}});
  });
  if (!read) return read.error();
  return pod;
}

Result<Node> read_node(std::string_view json) {
  Node node;
  const auto read = read_object(json, [&](JsonValue& root) {
    root.read({metadata_of(node.metadata),
               {"spec",
                [&](JsonValue& spec) {
                  spec.read(
                      {{"unschedulable", node.unschedulable},
                       {"taints", [&](JsonValue& list) { node.taints = list.list(read_taint); }}});
                }},
               {"status", [&](JsonValue& status) { read_node_status(status, node); }}});
  });
  if (!read) return read.error();
  return node;
}

Result<PodDisruptionBudget> read_pod_disruption_budget(std::string_view json) {
  PodDisruptionBudget budget;
  const auto read_spec = [&](JsonValue& spec) {
    spec.read({{"selector", [&](JsonValue& from) { budget.selector = read_selector(from); }}});
  };
  const auto read = read_object(json, [&](JsonValue& root) {
    root.read({metadata_of(budget.metadata),
               {"spec", read_spec},
               {"status", [&](JsonValue& status) {
                  status.read({{"disruptionsAllowed", budget.disruptions_allowed}});
                }}});
  });
  if (!read) return read.error();
  return budget;
}

Result<Secret> read_secret(std::string_view json) {
  Metadata metadata;
  Secret secret;
  std::string problem;
  // The sentence of a value of a wrong type would have the value.
  const auto read_data = [&](JsonValue& data) {
    data.members([&](std::string_view name, JsonValue& value) {
      const bool is_text = value.kind() == JsonValue::Kind::kString;
      auto bytes = is_text ? decode_base64(value.text()) : std::nullopt;
      if (!bytes) problem = fmt::format("data[{}] must be base64, and is not", in_quotes(name));
      secret.data.insert_or_assign(std::string(name), std::move(bytes).value_or(""));
    });
  };
  const auto read = read_object(json, [&](JsonValue& root) {
    root.read({metadata_of(metadata), {"type", secret.type}, {"data", read_data}});
  });
  if (!read) return read.error();
  if (!problem.empty()) return error(std::move(problem));
  if (metadata.resource_version.empty()) return error("metadata.resourceVersion is missing");
  secret.ref = {std::move(metadata.name_space), std::move(metadata.name)};
  secret.resource_version = std::move(metadata.resource_version);
  return secret;
}

Result<ListPage> read_list_page(std::string_view json) {
  ListPage page;
  bool has_items = false;
  const auto read_metadata = [&](JsonValue& metadata) {
    metadata.read({{"resourceVersion", page.resource_version}, {"continue", page.continue_token}});
  };
  // Go writes an empty list as null or [].
  const auto read_items = [&](JsonValue& items) {
    has_items = true;
    page.items.clear();
    items.elements([&](JsonValue& item) { page.items.push_back(item.object_text()); });
  };
  const auto read = read_object(json, [&](JsonValue& root) {
    root.read({{"metadata", read_metadata}, {"items", read_items}});
  });
  if (!read) return read.error();
  // Without this check any JSON object would be read as an empty list, which deletes everything.
  if (page.resource_version.empty()) {
    return error("metadata.resourceVersion of the list is missing");
  }
  if (!has_items) return error("items must be an array, is absent");
  return page;
}

Result<WatchLine> read_watch_line(std::string_view json) {
  std::string type;
  WatchLine line;
  const auto read_metadata = [&](JsonValue& metadata) {
    metadata.read({{"resourceVersion", line.resource_version}});
  };
  const auto read_watched = [&](JsonValue& object) {
    line.object = object.object_text();
    line.resource_version.clear();
    object.read({{"metadata", read_metadata}});
  };
  const auto read = read_object(json, [&](JsonValue& root) {
    root.read({{"type", type}, {"object", read_watched}});
  });
  if (!read) return read.error();
  const auto kind = kind_of_event(type);
  if (!kind) return kind.error();
  if (line.object.empty()) return error("object must be an object, is absent");
  line.kind = *kind;
  if (line.kind == WatchLine::Kind::kError) line.status = read_status(line.object);
  return line;
}

std::optional<LineBeginning> read_line_beginning(std::string_view line) {
  const std::string_view fields = metadata_at_beginning(line);
  const std::string version = first_text(fields, "resourceVersion");
  std::string name = name_of_object(line);
  if (name.empty() || !is_number(version)) return std::nullopt;
  return LineBeginning{std::move(name), version};
}

std::string name_of_object(std::string_view json) {
  const std::string_view fields = metadata_at_beginning(json);
  const std::string name = first_text(fields, "name");
  const std::string name_space = first_text(fields, "namespace");
  return json_escaped(name.empty() || name_space.empty() ? name : name_space + "/" + name);
}

Status read_status(std::string_view json) {
  Status status;
  const auto read = read_json(json, [&](JsonValue& root) {
    root.read({{"kind", status.kind},
               {"code", status.code},
               {"reason", status.reason},
               {"message", status.message}});
  });
  return read ? status : Status{};
}

}  // namespace mgpu::kube
