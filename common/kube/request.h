// Requests to the API server as values: path, query and body. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/kube/objects/objects.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

// `text` as the value of a parameter in the query of a URL, percent-encoded.
std::string query_text(std::string_view text);

// What to list and watch: a collection, with optional selectors.
struct Resource {
  std::string path;              // "/api/v1/nodes"
  std::string field_selector;    // "spec.nodeName!=,status.phase!=Succeeded"; empty = everything
  std::string label_selector{};  // "app.kubernetes.io/name in (a,b)"; empty = everything
  bool protobuf = false;         // see Request::protobuf
};

// The same pods in protobuf, for a Consumer with `read_protobuf`. A watch of all pods in JSON
// takes the API server a twentieth of what it does to schedule each of them.
Resource in_protobuf(Resource pods);

Resource all_nodes();
// Pods that may hold cards: bound, and neither Succeeded nor Failed. The server selects them.
Resource bound_pods();
// Pods that may still be bound: they have no node, and are neither Succeeded nor Failed.
Resource unbound_pods();
Resource all_pods();
// Pods that are not bound, with status.nominatedNodeName.
Resource nominated_pods();
Resource all_pod_disruption_budgets();
// Only this node; an empty collection if it does not exist.
Resource one_node(const NodeName& node);
// The pods of this node, finished ones included.
Resource pods_of_node(const NodeName& node);

// The ResourceSlices (resource.k8s.io) of a driver of dynamic resource allocation for this node.
// `version` is "v1", with Kubernetes 1.34 and later, or "v1beta1".
Resource resource_slices(std::string_view version, std::string_view driver, const NodeName& node);

// The first page from the newest state, or the page after `continue_token`.
Request list(const Resource& resource, std::uint32_t limit, std::string_view continue_token);
// From `resource_version` on, with bookmarks; the server ends it after `timeout`.
Request watch(const Resource& resource, std::string_view resource_version,
              std::chrono::seconds timeout);

Request get_pod(const PodRef& pod);
Request get_node(const NodeName& node);

// POST pods/{name}/binding, in protobuf, which every API server reads: sets spec.nodeName and the
// annotations in one transaction (kubernetes pkg/registry/core/pod/storage/storage.go,
// BindingREST.Create).
Request bind(const Binding& binding);
// The same as a dry run: the server checks everything and writes nothing.
Request dry_run_bind(const Binding& binding);

// A condition that no other program reads.
struct PodCondition {
  std::string type;
  std::string message;
};
// Strategic merge PATCH of pods/{name}/status. A message that the condition did not have before
// changes the resourceVersion of the pod.
Request set_pod_condition(const PodRef& pod, const PodCondition& condition);

// Merge PATCH of pods/{name}/status: nominatedNodeName becomes `node`, or is removed if that is
// empty. 409 if the pod has another uid, or another resourceVersion than `pod`, if that has one.
Request nominate(const Pod& pod, const NodeName& node);
// Strategic merge PATCH of pods/{name}/status: the condition DisruptionTarget that kube-scheduler
// gives a pod that it evicts for another one. `time` is RFC 3339. 422 where the pod has another
// uid.
Request mark_preempted(const PodRef& pod, const PodUid& uid, std::string_view message,
                       std::string_view time);
// DELETE with the uid as precondition (409) and the pod's own grace period.
Request delete_pod(const PodRef& pod, const PodUid& uid);

// GET of a Lease, from etcd: without the parameter resourceVersion.
Request get_lease(const ObjectRef& lease);
// POST of a Lease without a resourceVersion, 409 if it exists; PUT of another, 409 if it has
// changed since.
Request write_lease(const Lease& lease);

// A collection of this one Lease.
Resource one_lease(const ObjectRef& lease);

Request get_service(const ObjectRef& service);
Request get_pod_group(const ObjectRef& group);
// The EndpointSlice of this name.
Request get_endpoint_slice(const ObjectRef& slice);
// POST of a slice without a resourceVersion, PUT of another, as for a Lease. The slice is owned by
// the Service, which it is deleted with, has `slice.metadata.labels` and one ready endpoint.
Request write_endpoint_slice(const Service& service, const EndpointSlice& slice);

// GET of a Secret, from etcd.
Request get_secret(const ObjectRef& secret);
// POST of a Secret of the type Opaque; 409 if it exists. The body has the data.
Request create_secret(const ObjectRef& secret, const StringMap& data);
// Merge PATCH of these members of `data`; the others, labels and annotations stay. 409 if the
// Secret has changed since `resource_version`.
Request change_secret(const ObjectRef& secret, std::string_view resource_version,
                      const StringMap& data);

// A CSIStorageCapacity (storage.k8s.io/v1) with one annotation.
struct StorageCapacity {
  std::string name_space;
  std::string name;
  std::string storage_class;
  std::string annotation;
  std::string value;
};
Request create_storage_capacity(const StorageCapacity& capacity);
// Merge PATCH of this one annotation.
Request annotate_storage_capacity(const StorageCapacity& capacity);

// POST of a TokenReview (authentication.k8s.io/v1): who owns the token. The answer has status 201;
// reviews.h reads it. The body of the request has the token.
Request review_token(std::string_view token);
// POST of a SubjectAccessReview (authorization.k8s.io/v1): whether this user may use `verb` on the
// non-resource URL `path`.
Request review_access(const UserInfo& user, std::string_view verb, std::string_view path);

// A request for objects, as in rules of RBAC.
struct ResourceAccess {
  std::string verb;
  std::string group;  // empty: core
  std::string resource;
  std::string subresource{};
  std::string name_space{};  // empty: all namespaces
  std::string name{};        // empty: all names
};
// POST of a SubjectAccessReview: whether this user may do that.
Request review_access(const UserInfo& user, const ResourceAccess& access);

// --- writes of the device plugin -----------------------------------------------------------------

// Merge PATCH of this one annotation of nodes/{name}.
Request annotate_node(const NodeName& node, std::string_view key, std::string_view value);

// Merge PATCH of all taints of nodes/{name}, which the API server refuses with 409 if the node has
// another resourceVersion than `read`.
Request set_node_taints(const Node& read, const std::vector<Taint>& taints);

// The change of a node's status; everything else in it stays.
struct NodeStatusChange {
  std::map<std::string, std::int64_t> capacity;
  std::optional<Condition> condition;  // merged with the condition of the same type
  std::string heartbeat_time;          // of the condition, RFC 3339
  std::string transition_time;         // set if its status changes; empty: the old one stays
};
// Strategic merge PATCH of nodes/{name}/status.
Request change_node_status(const NodeName& node, const NodeStatusChange& change);

// A core/v1 Event. Times are RFC 3339.
struct EventObject {
  std::string name;
  std::string name_space;
  std::string involved_kind;       // "Pod"
  std::string involved_namespace;  // empty for cluster-scoped objects
  std::string involved_name;
  std::string involved_uid;  // may be empty
  bool warning = false;
  std::string reason;
  std::string message;
  std::string component;
  std::string host;
  std::string time;  // of the first occurrence, which is also the last so far
};
Request create_event(const EventObject& event);
// Merge PATCH: the event has occurred `count` times, the last time at `time`.
Request count_event(std::string_view name_space, std::string_view name, std::uint64_t count,
                    std::string_view time);

// POST pods/{name}/eviction (policy/v1) with the uid as precondition. 429: a disruption budget
// does not allow it now.
Request evict(const PodRef& pod, const PodUid& uid);

}  // namespace mgpu::kube
