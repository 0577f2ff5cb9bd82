// Pods, nodes, disruption budgets and users with the fields that mgpu reads. They are plain values,
// so that pure code may use them; object_json.h and reviews.h read them from JSON, and
// object_protobuf.h pods and what they come in from protobuf.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace mgpu::kube {

using StringMap = std::map<std::string, std::string, std::less<>>;

// The object that manages another one: its entry of metadata.ownerReferences with `controller`.
// The API server checks neither text beyond that it is not empty.
struct OwnerRef {
  std::string kind;  // "ReplicaSet"
  std::string name;
};

struct Metadata {
  std::string name;
  std::string name_space;  // metadata.namespace; empty for cluster-scoped objects
  std::string uid;
  std::string resource_version;  // opaque: compare for equality only
  StringMap annotations;
  StringMap labels;
  bool being_deleted = false;  // deletionTimestamp is set
  // deletionGracePeriodSeconds. None: the object is not being deleted, or the period exceeds 32
  // bits.
  std::optional<std::int32_t> deletion_grace_seconds{};
  std::optional<OwnerRef> controller{};
  // deletionTimestamp, from JSON only. None: it is not set, or not a time.
  std::optional<std::chrono::sys_seconds> deletion_time{};
};

struct Container {
  std::string name;
  StringMap limits;    // resource -> quantity as written
  StringMap requests;  // the same
  // Only on init containers: restartPolicy Always, that is, a sidecar.
  bool restart_always = false;
  bool host_port = false;  // it uses a port of the node
};

// What kubelet has given to a container or a pod, which differs from the spec while it is resized.
struct GivenResources {
  StringMap requests;   // resources.requests of the status
  StringMap allocated;  // allocatedResources
};

// A container that the runtime has created. The id changes with every restart.
struct ContainerStatus {
  std::string name;
  std::string id;        // "containerd://<64 hexadecimal digits>"; empty before the first start
  bool running = false;  // state.running is set
  std::optional<GivenResources> given{};  // none: the status has no resources
};

// One term of a label selector (metav1.LabelSelector).
struct LabelRequirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist; for nodes also Gt, Lt
  std::vector<std::string> values;
};

struct Toleration {
  std::string key;
  std::string op;  // Equal, Exists; empty: Equal
  std::string value;
  std::string effect;  // empty: every effect
};

// The labels and fields that a node must have all of.
struct NodeTerm {
  std::vector<LabelRequirement> labels;
  std::vector<LabelRequirement> fields;
};

// On which nodes a pod may run, as its spec says it.
struct NodeRules {
  StringMap selector;                             // spec.nodeSelector
  std::optional<std::vector<NodeTerm>> required;  // one of these, if it is set
  std::vector<Toleration> tolerations;
};

struct Pod {
  Metadata metadata;
  std::vector<Container> init_containers;  // spec order
  std::vector<Container> containers;       // spec order
  StringMap overhead;                      // spec.overhead, from the runtime class
  StringMap requests;                      // spec.resources.requests: of the pod as a whole
  std::optional<GivenResources> given{};   // of the pod as a whole; none: the status has none
  bool resize_infeasible = false;          // the node will not give what the spec requests
  std::string node_name;                   // empty until bound
  std::string scheduler_name;
  std::string nominated_node;  // status.nominatedNodeName: others are evicted there for this pod
  std::int32_t priority = 0;
  // Whether it may run beside other pods depends on more than resources: volumes that several pods
  // may share, resource claims, or rules about other pods.
  bool constrained = false;
  // It has schedulingGates, which can only be removed: it cannot be bound before that.
  bool gated = false;
  bool affinity = false;       // requires that some pods are on its node, or near it
  bool anti_affinity = false;  // requires that some pods are not on its node
  // spec.preemptionPolicy is Never; from JSON only: no pod is evicted for it.
  bool never_preempts = false;
  // It prefers some nodes, as kube-scheduler's own plugins score them: by node affinity, pod
  // (anti-)affinity, or a spread constraint that need not hold. From JSON only.
  bool has_preferences = false;
  NodeRules node_rules{};  // read from JSON only: kube-scheduler sends it
  // spec.schedulingGroup.podGroupName: kube-scheduler binds it with others.
  std::string pod_group;
  std::string phase;       // Pending, Running, Succeeded, Failed, Unknown
  std::string start_time;  // status.startTime, RFC 3339; may be empty
  // status.initContainerStatuses, then status.containerStatuses.
  std::vector<ContainerStatus> container_statuses;
  std::size_t json_bytes = 0;  // of the text that it was read from

  PodRef ref() const { return {metadata.name_space, metadata.name}; }
  PodUid uid() const { return PodUid(metadata.uid); }
  // Succeeded or Failed: no container runs or will run again.
  bool finished() const { return phase == "Succeeded" || phase == "Failed"; }
};

// The condition of a pod whose resize waits, and its reason if the node never grants it.
inline constexpr std::string_view kResizePending = "PodResizePending";
inline constexpr std::string_view kResizeInfeasible = "Infeasible";

// The reason of the condition DisruptionTarget of a pod that is evicted for another one. While it
// ends, kube-scheduler evicts no further pod for that one.
inline constexpr std::string_view kPreemptionReason = "PreemptionByScheduler";

struct Condition {
  std::string type;
  std::string status;  // True, False, Unknown
  std::string reason;
  std::string message;
  bool operator==(const Condition&) const = default;
};

// What is read only where a person sees why a pod waits.
struct PodScheduling {
  std::string created;             // metadata.creationTimestamp, RFC 3339
  std::vector<std::string> gates;  // spec.schedulingGates
  Condition scheduled;             // the condition PodScheduled; empty: there is none
  std::string since;               // its lastTransitionTime
};

struct Taint {
  std::string key;
  std::string value;
  std::string effect;      // NoSchedule, PreferNoSchedule, NoExecute
  std::string time_added;  // RFC 3339, or empty
  bool operator==(const Taint&) const = default;
};

struct Node {
  Metadata metadata;
  StringMap capacity;
  StringMap allocatable;
  std::vector<Condition> conditions;
  bool unschedulable = false;
  std::vector<Taint> taints;
};

// The namespace and name of an object other than a pod.
struct ObjectRef {
  std::string name_space;
  std::string name;
};

// "namespace/name", as Kubernetes writes it.
inline std::string to_string(const ObjectRef& object) {
  return object.name_space + "/" + object.name;
}

// What is read of a PodGroup (scheduling.k8s.io/v1beta1).
struct PodGroup {
  bool evicted_together = false;  // spec.disruptionMode is {all: {}}
};

// A Lease (coordination.k8s.io/v1).
struct Lease {
  ObjectRef ref;
  std::string resource_version;
  std::string holder;  // spec.holderIdentity; empty: no process holds the Lease
  // What a holder that renews the Lease writes besides. Times are metav1.MicroTime in UTC.
  std::int32_t duration_s = 0;  // spec.leaseDurationSeconds; 0: absent
  std::string acquire_time;     // empty: absent
  std::string renew_time;       // empty: absent
  std::int32_t transitions = 0;
};

// A Service, as far as an EndpointSlice of it depends on it.
struct Service {
  Metadata metadata;
  bool has_selector = false;
  std::vector<std::string> port_names;  // a Service with one port may have an empty name
};

// An EndpointSlice (discovery.k8s.io/v1) with one port.
struct EndpointSlice {
  Metadata metadata;
  std::string address_type;  // IPv4 or IPv6
  std::vector<std::string> addresses;
  std::string port_name;
  std::int32_t port = 0;
};

struct Secret {
  ObjectRef ref;
  std::string resource_version;
  std::string type;  // "Opaque", "kubernetes.io/tls", ...
  StringMap data;    // decoded: bytes
};

struct LabelSelector {
  StringMap match_labels;
  std::vector<LabelRequirement> match_expressions;
};

struct PodDisruptionBudget {
  Metadata metadata;
  std::optional<LabelSelector> selector;  // none: no pod; empty: every pod of the namespace
  std::int32_t disruptions_allowed = 0;
};

// The user of a bearer token, as a TokenReview describes it.
struct UserInfo {
  std::string name;
  std::string uid;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<std::string>> extra;
};

struct Binding {
  PodRef pod;
  PodUid uid;  // precondition: another uid is a 409
  NodeName node;
  std::map<std::string, std::string> annotations;  // merged into the pod's in the same write
  // Precondition: a pod that has changed since this version is a 409. Empty: no precondition.
  std::string resource_version{};
};

// A metav1.Status; fields that are absent are zero or empty.
struct Status {
  std::string kind;  // "Status"
  std::int32_t code = 0;
  std::string reason;  // "Conflict", "Expired", ...
  std::string message;
};

// A page of a list. Each item is encoded as the page is.
struct ListPage {
  std::string resource_version;
  std::string continue_token;  // empty on the last page
  std::vector<std::string> items;
};

// One event of a watch.
struct WatchLine {
  enum class Kind { kAdded, kModified, kDeleted, kBookmark, kError };
  Kind kind = Kind::kAdded;
  std::string object;            // encoded as the event is
  std::string resource_version;  // metadata.resourceVersion of the object; may be empty
  Status status;                 // of kError
};
// Errors: Kubernetes has no events of this type.
Result<WatchLine::Kind> kind_of_event(std::string_view type);

// True when every term is true for `labels`. A term with an unknown operator is false.
bool matches(const LabelSelector& selector, const StringMap& labels);

}  // namespace mgpu::kube
