// Requests to the API server as values: which path, query and body a thing needs, and nothing of
// how it gets there. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/kube/objects.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

// What to list and watch: a collection, cluster-wide, with an optional field selector.
struct Resource {
  std::string path;            // "/api/v1/nodes"
  std::string field_selector;  // "spec.nodeName!=,status.phase!=Succeeded"; empty = everything
};

Resource all_nodes();
// Pods that hold cards: bound, and neither Succeeded nor Failed; selected at the server.
Resource bound_pods();
Resource all_pod_disruption_budgets();
// Just this one; an empty collection where there is no such node.
Resource one_node(const NodeName& node);
// Its pods, those that have ended included.
Resource pods_of_node(const NodeName& node);

// The first page from the newest state, or the page after `continue_token`.
Request list(const Resource& resource, std::uint32_t limit, std::string_view continue_token);
// From `resource_version` on, with bookmarks; the server ends it after `timeout`.
Request watch(const Resource& resource, std::string_view resource_version,
              std::chrono::seconds timeout);

Request get_pod(const PodRef& pod);
Request get_node(const NodeName& node);
Request get_version();

struct Binding {
  PodRef pod;
  PodUid uid;  // precondition: another uid is a 409
  NodeName node;
  std::map<std::string, std::string> annotations;  // merged into the pod by the same write
};
// POST pods/{name}/binding: sets spec.nodeName and the annotations in one transaction
// (kubernetes pkg/registry/core/pod/storage/storage.go, BindingREST.Create).
Request bind(const Binding& binding);

// A CSIStorageCapacity (storage.k8s.io/v1) with one annotation.
struct StorageCapacity {
  std::string name_space;
  std::string name;
  std::string storage_class;
  std::string annotation;
  std::string value;
};
Request create_storage_capacity(const StorageCapacity& capacity);
// Merge PATCH: this one annotation.
Request annotate_storage_capacity(const StorageCapacity& capacity);

// --- writes of a node's agent --------------------------------------------------------------------

// Merge PATCH of nodes/{name}: this one annotation.
Request annotate_node(const NodeName& node, std::string_view key, std::string_view value);

// What changes of a node's status; everything else stays.
struct NodeStatusChange {
  std::map<std::string, std::int64_t> capacity;
  std::optional<Condition> condition;  // found again by its type
  std::string heartbeat_time;          // of the condition, RFC 3339
  std::string transition_time;         // where its status changes; empty: the old one stays
};
// Strategic merge PATCH of nodes/{name}/status.
Request change_node_status(const NodeName& node, const NodeStatusChange& change);

// A core/v1 Event. Times are RFC 3339.
struct EventObject {
  std::string name;
  std::string name_space;
  std::string involved_kind;       // "Pod"
  std::string involved_namespace;  // empty for what lives in none
  std::string involved_name;
  std::string involved_uid;  // may be empty
  bool warning = false;
  std::string reason;
  std::string message;
  std::string component;
  std::string host;
  std::string time;  // of its first and, so far, last occurrence
};
Request create_event(const EventObject& event);
// Merge PATCH: it has occurred `count` times, last at `time`.
Request count_event(std::string_view name_space, std::string_view name, std::uint64_t count,
                    std::string_view time);

// POST pods/{name}/eviction (policy/v1) with the uid as precondition. 429: a disruption budget
// does not allow it now.
Request evict(const PodRef& pod, const PodUid& uid);

}  // namespace mgpu::kube
