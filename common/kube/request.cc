#include "common/kube/request.h"

#include <fmt/format.h>

#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>
#include <nlohmann/json.hpp>

#include "common/base/base64.h"
#include "common/kube/objects/object_protobuf.h"

namespace mgpu::kube {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kJson = "application/json";
constexpr const char* kMergePatch = "application/merge-patch+json";
constexpr const char* kStrategicMergePatch = "application/strategic-merge-patch+json";

// A name never leaves its path segment.
std::string percent_encoded(std::string_view text) {
  // These two would change the path.
  if (text == ".") return "%2E";
  if (text == "..") return "%2E%2E";
  return query_text(text);
}

std::string selector_query(const Resource& resource) {
  std::string query;
  if (!resource.field_selector.empty()) {
    query += "&fieldSelector=" + percent_encoded(resource.field_selector);
  }
  if (!resource.label_selector.empty()) {
    query += "&labelSelector=" + percent_encoded(resource.label_selector);
  }
  return query;
}

// A kind of objects that are in namespaces.
struct NamespacedKind {
  std::string_view group;
  std::string_view plural;
};
constexpr NamespacedKind kPods{"/api/v1", "pods"};
constexpr NamespacedKind kEvents{"/api/v1", "events"};
constexpr NamespacedKind kSecrets{"/api/v1", "secrets"};
constexpr NamespacedKind kServices{"/api/v1", "services"};
constexpr NamespacedKind kLeases{"/apis/coordination.k8s.io/v1", "leases"};
constexpr NamespacedKind kEndpointSlices{"/apis/discovery.k8s.io/v1", "endpointslices"};
constexpr NamespacedKind kPodGroups{"/apis/scheduling.k8s.io/v1beta1", "podgroups"};
constexpr NamespacedKind kStorageCapacities{"/apis/storage.k8s.io/v1", "csistoragecapacities"};

std::string path_of(const NamespacedKind& all, std::string_view name_space) {
  return fmt::format("{}/namespaces/{}/{}", all.group, percent_encoded(name_space), all.plural);
}

std::string path_of(const NamespacedKind& all, std::string_view name_space, std::string_view name) {
  return path_of(all, name_space) + "/" + percent_encoded(name);
}

std::string pod_path(const PodRef& pod) {
  return path_of(kPods, pod.name_space, pod.name);
}

std::string node_path(const NodeName& node) {
  return "/api/v1/nodes/" + percent_encoded(node.str());
}

Request get(std::string target) {
  Request request;
  request.target = std::move(target);
  return request;
}

// Bytes of `body` that are not UTF-8 become U+FFFD.
Request with_body(Method method, std::string target, const char* type, const Json& body) {
  Request request;
  request.method = method;
  request.target = std::move(target);
  request.content_type = type;
  request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return request;
}

Json lease_json(const Lease& lease) {
  Json metadata = {{"name", lease.ref.name}, {"namespace", lease.ref.name_space}};
  if (!lease.resource_version.empty()) metadata["resourceVersion"] = lease.resource_version;
  Json spec = {{"holderIdentity", lease.holder}};
  if (lease.duration_s > 0) spec["leaseDurationSeconds"] = lease.duration_s;
  if (!lease.acquire_time.empty()) spec["acquireTime"] = lease.acquire_time;
  if (!lease.renew_time.empty()) spec["renewTime"] = lease.renew_time;
  if (lease.transitions > 0) spec["leaseTransitions"] = lease.transitions;
  return {{"apiVersion", "coordination.k8s.io/v1"},
          {"kind", "Lease"},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

Json endpoint_slice_json(const Service& service, const EndpointSlice& slice) {
  Json metadata = {{"name", slice.metadata.name},
                   {"namespace", slice.metadata.name_space},
                   {"labels", slice.metadata.labels},
                   {"ownerReferences",
                    {{{"apiVersion", "v1"},
                      {"kind", "Service"},
                      {"name", service.metadata.name},
                      {"uid", service.metadata.uid}}}}};
  if (!slice.metadata.resource_version.empty()) {
    metadata["resourceVersion"] = slice.metadata.resource_version;
  }
  return {{"apiVersion", "discovery.k8s.io/v1"},
          {"kind", "EndpointSlice"},
          {"metadata", std::move(metadata)},
          {"addressType", slice.address_type},
          {"endpoints", {{{"addresses", slice.addresses}, {"conditions", {{"ready", true}}}}}},
          {"ports", {{{"name", slice.port_name}, {"port", slice.port}, {"protocol", "TCP"}}}}};
}

// POST of an object without a resourceVersion, PUT of another.
Request write_object(const NamespacedKind& all, const ObjectRef& object, const std::string& version,
                     const Json& body) {
  if (version.empty()) {
    return with_body(Method::kPost, path_of(all, object.name_space), kJson, body);
  }
  return with_body(Method::kPut, path_of(all, object.name_space, object.name), kJson, body);
}

Request access_review(const UserInfo& user, const char* attributes, Json access) {
  return with_body(Method::kPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", kJson,
                   {{"apiVersion", "authorization.k8s.io/v1"},
                    {"kind", "SubjectAccessReview"},
                    {"spec",
                     {{"user", user.name},
                      {"uid", user.uid},
                      {"groups", user.groups},
                      {"extra", user.extra},
                      {attributes, std::move(access)}}}});
}

Json encoded(const StringMap& data) {
  Json json = Json::object();
  for (const auto& [key, bytes] : data) json[key] = encode_base64(bytes);
  return json;
}

Json annotation_patch(std::string_view key, std::string_view value) {
  return {{"metadata", {{"annotations", {{key, value}}}}}};
}

}  // namespace

std::string query_text(std::string_view text) {
  return boost::urls::encode(text, boost::urls::unreserved_chars);
}

Resource in_protobuf(Resource pods) {
  pods.protobuf = true;
  return pods;
}

Resource all_nodes() {
  return {"/api/v1/nodes", {}};
}

Resource nominated_pods() {
  return {"/api/v1/pods", "spec.nodeName=,status.nominatedNodeName!="};
}

Resource bound_pods() {
  return {"/api/v1/pods", "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"};
}

Resource unbound_pods() {
  return {"/api/v1/pods", "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed"};
}

Resource all_pods() {
  return {"/api/v1/pods", {}};
}

Resource all_pod_disruption_budgets() {
  return {"/apis/policy/v1/poddisruptionbudgets", {}};
}

Resource one_node(const NodeName& node) {
  return {"/api/v1/nodes", "metadata.name=" + node.str()};
}

Resource pods_of_node(const NodeName& node) {
  return {"/api/v1/pods", "spec.nodeName=" + node.str()};
}

Resource resource_slices(std::string_view version, std::string_view driver, const NodeName& node) {
  return {fmt::format("/apis/resource.k8s.io/{}/resourceslices", version),
          fmt::format("spec.driver={},spec.nodeName={}", driver, node.str())};
}

Request list(const Resource& resource, std::uint32_t limit, std::string_view continue_token) {
  std::string target = fmt::format("{}?limit={}{}", resource.path, limit, selector_query(resource));
  if (!continue_token.empty()) target += "&continue=" + percent_encoded(continue_token);
  Request request = get(std::move(target));
  request.protobuf = resource.protobuf;
  return request;
}

Request watch(const Resource& resource, std::string_view resource_version,
              std::chrono::seconds timeout) {
  Request request = get(fmt::format(
      "{}?watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}{}", resource.path,
      percent_encoded(resource_version), timeout.count(), selector_query(resource)));
  request.protobuf = resource.protobuf;
  return request;
}

Request get_pod(const PodRef& pod) {
  return get(pod_path(pod));
}

Request get_node(const NodeName& node) {
  return get(node_path(node));
}

Request bind(const Binding& binding) {
  Request request;
  request.method = Method::kPost;
  request.target = pod_path(binding.pod) + "/binding";
  request.content_type = kProtobufType;
  request.body = binding_protobuf(binding);
  request.protobuf = true;
  return request;
}

Request dry_run_bind(const Binding& binding) {
  Request request = bind(binding);
  request.target += "?dryRun=All";
  return request;
}

Request set_pod_condition(const PodRef& pod, const PodCondition& condition) {
  Json conditions =
      Json::array({{{"type", condition.type}, {"status", "True"}, {"message", condition.message}}});
  return with_body(Method::kPatch, pod_path(pod) + "/status", kStrategicMergePatch,
                   {{"status", {{"conditions", std::move(conditions)}}}});
}

Request nominate(const Pod& pod, const NodeName& node) {
  Json precondition = {{"uid", pod.metadata.uid}};
  if (!pod.metadata.resource_version.empty())
    precondition["resourceVersion"] = pod.metadata.resource_version;
  return with_body(
      Method::kPatch, pod_path(pod.ref()) + "/status", kMergePatch,
      {{"metadata", std::move(precondition)},
       {"status", {{"nominatedNodeName", node.empty() ? Json(nullptr) : Json(node.str())}}}});
}

Request mark_preempted(const PodRef& pod, const PodUid& uid, std::string_view message,
                       std::string_view time) {
  Json conditions = Json::array({{{"type", "DisruptionTarget"},
                                  {"status", "True"},
                                  {"reason", std::string(kPreemptionReason)},
                                  {"message", message},
                                  {"lastTransitionTime", time}}});
  return with_body(
      Method::kPatch, pod_path(pod) + "/status", kStrategicMergePatch,
      {{"metadata", {{"uid", uid.str()}}}, {"status", {{"conditions", std::move(conditions)}}}});
}

Request delete_pod(const PodRef& pod, const PodUid& uid) {
  return with_body(
      Method::kDelete, pod_path(pod), kJson,
      {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"preconditions", {{"uid", uid.str()}}}});
}

Request get_lease(const ObjectRef& lease) {
  return get(path_of(kLeases, lease.name_space, lease.name));
}

Request write_lease(const Lease& lease) {
  return write_object(kLeases, lease.ref, lease.resource_version, lease_json(lease));
}

Resource one_lease(const ObjectRef& lease) {
  return {path_of(kLeases, lease.name_space), "metadata.name=" + lease.name};
}

Request get_service(const ObjectRef& service) {
  return get(path_of(kServices, service.name_space, service.name));
}

Request get_pod_group(const ObjectRef& group) {
  return get(path_of(kPodGroups, group.name_space, group.name));
}

Request get_endpoint_slice(const ObjectRef& slice) {
  return get(path_of(kEndpointSlices, slice.name_space, slice.name));
}

Request write_endpoint_slice(const Service& service, const EndpointSlice& slice) {
  return write_object(kEndpointSlices, {slice.metadata.name_space, slice.metadata.name},
                      slice.metadata.resource_version, endpoint_slice_json(service, slice));
}

Request get_secret(const ObjectRef& secret) {
  return get(path_of(kSecrets, secret.name_space, secret.name));
}

Request create_secret(const ObjectRef& secret, const StringMap& data) {
  return with_body(Method::kPost, path_of(kSecrets, secret.name_space), kJson,
                   {{"apiVersion", "v1"},
                    {"kind", "Secret"},
                    {"metadata", {{"name", secret.name}, {"namespace", secret.name_space}}},
                    {"type", "Opaque"},
                    {"data", encoded(data)}});
}

Request change_secret(const ObjectRef& secret, std::string_view resource_version,
                      const StringMap& data) {
  return with_body(
      Method::kPatch, path_of(kSecrets, secret.name_space, secret.name), kMergePatch,
      {{"metadata", {{"resourceVersion", resource_version}}}, {"data", encoded(data)}});
}

Request create_storage_capacity(const StorageCapacity& capacity) {
  return with_body(Method::kPost, path_of(kStorageCapacities, capacity.name_space), kJson,
                   {{"apiVersion", "storage.k8s.io/v1"},
                    {"kind", "CSIStorageCapacity"},
                    {"metadata",
                     {{"name", capacity.name},
                      {"namespace", capacity.name_space},
                      {"annotations", {{capacity.annotation, capacity.value}}}}},
                    {"storageClassName", capacity.storage_class}});
}

Request annotate_storage_capacity(const StorageCapacity& capacity) {
  return with_body(Method::kPatch, path_of(kStorageCapacities, capacity.name_space, capacity.name),
                   kMergePatch, annotation_patch(capacity.annotation, capacity.value));
}

Request review_token(std::string_view token) {
  return with_body(Method::kPost, "/apis/authentication.k8s.io/v1/tokenreviews", kJson,
                   {{"apiVersion", "authentication.k8s.io/v1"},
                    {"kind", "TokenReview"},
                    {"spec", {{"token", token}}}});
}

Request review_access(const UserInfo& user, std::string_view verb, std::string_view path) {
  return access_review(user, "nonResourceAttributes", {{"path", path}, {"verb", verb}});
}

Request review_access(const UserInfo& user, const ResourceAccess& access) {
  return access_review(user, "resourceAttributes",
                       {{"verb", access.verb},
                        {"group", access.group},
                        {"resource", access.resource},
                        {"subresource", access.subresource},
                        {"namespace", access.name_space},
                        {"name", access.name}});
}

Request annotate_node(const NodeName& node, std::string_view key, std::string_view value) {
  return with_body(Method::kPatch, node_path(node), kMergePatch, annotation_patch(key, value));
}

Request set_node_taints(const Node& read, const std::vector<Taint>& taints) {
  Json list = Json::array();
  for (const Taint& taint : taints) {
    Json json = {{"key", taint.key}, {"effect", taint.effect}};
    if (!taint.value.empty()) json["value"] = taint.value;
    if (!taint.time_added.empty()) json["timeAdded"] = taint.time_added;
    list.push_back(std::move(json));
  }
  return with_body(Method::kPatch, node_path(NodeName(read.metadata.name)), kMergePatch,
                   {{"metadata", {{"resourceVersion", read.metadata.resource_version}}},
                    {"spec", {{"taints", std::move(list)}}}});
}

Request change_node_status(const NodeName& node, const NodeStatusChange& change) {
  Json status = Json::object();
  for (const auto& [resource, amount] : change.capacity) {
    status["capacity"][resource] = std::to_string(amount);
  }
  if (change.condition) {
    Json condition = {{"type", change.condition->type},
                      {"status", change.condition->status},
                      {"reason", change.condition->reason},
                      {"message", change.condition->message},
                      {"lastHeartbeatTime", change.heartbeat_time}};
    if (!change.transition_time.empty()) condition["lastTransitionTime"] = change.transition_time;
    status["conditions"].push_back(std::move(condition));
  }
  return with_body(Method::kPatch, node_path(node) + "/status", kStrategicMergePatch,
                   {{"status", std::move(status)}});
}

Request create_event(const EventObject& event) {
  Json involved = {
      {"apiVersion", "v1"}, {"kind", event.involved_kind}, {"name", event.involved_name}};
  if (!event.involved_namespace.empty()) involved["namespace"] = event.involved_namespace;
  if (!event.involved_uid.empty()) involved["uid"] = event.involved_uid;
  return with_body(Method::kPost, path_of(kEvents, event.name_space), kJson,
                   {{"apiVersion", "v1"},
                    {"kind", "Event"},
                    {"metadata", {{"name", event.name}, {"namespace", event.name_space}}},
                    {"involvedObject", std::move(involved)},
                    {"reason", event.reason},
                    {"message", event.message},
                    {"type", event.warning ? "Warning" : "Normal"},
                    {"source", {{"component", event.component}, {"host", event.host}}},
                    {"reportingComponent", event.component},
                    {"reportingInstance", event.host},
                    {"firstTimestamp", event.time},
                    {"lastTimestamp", event.time},
                    {"count", 1}});
}

Request count_event(std::string_view name_space, std::string_view name, std::uint64_t count,
                    std::string_view time) {
  return with_body(Method::kPatch, path_of(kEvents, name_space, name), kMergePatch,
                   {{"count", count}, {"lastTimestamp", time}});
}

Request evict(const PodRef& pod, const PodUid& uid) {
  return with_body(Method::kPost, pod_path(pod) + "/eviction", kJson,
                   {{"apiVersion", "policy/v1"},
                    {"kind", "Eviction"},
                    {"metadata", {{"name", pod.name}, {"namespace", pod.name_space}}},
                    {"deleteOptions", {{"preconditions", {{"uid", uid.str()}}}}}});
}

}  // namespace mgpu::kube
