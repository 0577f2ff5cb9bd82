#include "common/kube/request.h"

#include <fmt/format.h>

#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>

#include "common/base/text.h"

namespace mgpu::kube {
namespace {

// No name can leave its segment.
std::string percent_encoded(std::string_view text) {
  // They would be taken for steps along the path.
  if (text == ".") return "%2E";
  if (text == "..") return "%2E%2E";
  return boost::urls::encode(text, boost::urls::unreserved_chars);
}

std::string selector_query(const Resource& resource) {
  if (resource.field_selector.empty()) return {};
  return "&fieldSelector=" + percent_encoded(resource.field_selector);
}

std::string pod_path(const PodRef& pod) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}", percent_encoded(pod.name_space),
                     percent_encoded(pod.name));
}

std::string json_string(std::string_view text) {
  return '"' + json_escaped(text) + '"';
}

std::string binding_json(const Binding& binding) {
  std::string annotations;
  for (const auto& [key, value] : binding.annotations) {
    if (!annotations.empty()) annotations += ',';
    annotations += json_string(key) + ':' + json_string(value);
  }
  return fmt::format(
      R"({{"apiVersion":"v1","kind":"Binding","metadata":{{"name":{},"namespace":{},"uid":{},)"
      R"("annotations":{{{}}}}},"target":{{"apiVersion":"v1","kind":"Node","name":{}}}}})",
      json_string(binding.pod.name), json_string(binding.pod.name_space),
      json_string(binding.uid.str()), annotations, json_string(binding.node.str()));
}

Request with_body(Method method, std::string target, std::string type, std::string body) {
  Request request;
  request.method = method;
  request.target = std::move(target);
  request.content_type = std::move(type);
  request.body = std::move(body);
  return request;
}

std::string node_path(const NodeName& node) {
  return "/api/v1/nodes/" + percent_encoded(node.str());
}

std::string storage_capacities_path(std::string_view name_space) {
  return fmt::format("/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities",
                     percent_encoded(name_space));
}

std::string annotations_json(std::string_view key, std::string_view value) {
  return fmt::format(R"("annotations":{{{}:{}}})", json_string(key), json_string(value));
}

std::string events_path(std::string_view name_space) {
  return fmt::format("/api/v1/namespaces/{}/events", percent_encoded(name_space));
}

std::string condition_json(const NodeStatusChange& change) {
  std::string json =
      fmt::format(R"({{"type":{},"status":{},"reason":{},"message":{},"lastHeartbeatTime":{})",
                  json_string(change.condition->type), json_string(change.condition->status),
                  json_string(change.condition->reason), json_string(change.condition->message),
                  json_string(change.heartbeat_time));
  if (!change.transition_time.empty()) {
    json += R"(,"lastTransitionTime":)" + json_string(change.transition_time);
  }
  return json + "}";
}

std::string status_json(const NodeStatusChange& change) {
  std::string capacity;
  for (const auto& [resource, amount] : change.capacity) {
    if (!capacity.empty()) capacity += ',';
    capacity += fmt::format(R"({}:"{}")", json_string(resource), amount);
  }
  std::string status;
  if (!capacity.empty()) status = fmt::format(R"("capacity":{{{}}})", capacity);
  if (change.condition) {
    if (!status.empty()) status += ',';
    status += fmt::format(R"("conditions":[{}])", condition_json(change));
  }
  return fmt::format(R"({{"status":{{{}}}}})", status);
}

std::string involved_json(const EventObject& event) {
  std::string json =
      fmt::format(R"({{"apiVersion":"v1","kind":{},"name":{})", json_string(event.involved_kind),
                  json_string(event.involved_name));
  if (!event.involved_namespace.empty()) {
    json += R"(,"namespace":)" + json_string(event.involved_namespace);
  }
  if (!event.involved_uid.empty()) json += R"(,"uid":)" + json_string(event.involved_uid);
  return json + "}";
}

Request get(std::string target) {
  Request request;
  request.target = std::move(target);
  return request;
}

}  // namespace

Resource all_nodes() {
  return {"/api/v1/nodes", {}};
}

Resource bound_pods() {
  return {"/api/v1/pods", "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"};
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

Request list(const Resource& resource, std::uint32_t limit, std::string_view continue_token) {
  std::string target = fmt::format("{}?limit={}{}", resource.path, limit, selector_query(resource));
  if (!continue_token.empty()) target += "&continue=" + percent_encoded(continue_token);
  return get(std::move(target));
}

Request watch(const Resource& resource, std::string_view resource_version,
              std::chrono::seconds timeout) {
  return get(fmt::format(
      "{}?watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}{}", resource.path,
      percent_encoded(resource_version), timeout.count(), selector_query(resource)));
}

Request get_pod(const PodRef& pod) {
  return get(pod_path(pod));
}

Request get_node(const NodeName& node) {
  return get(node_path(node));
}

Request get_version() {
  return get("/version");
}

Request bind(const Binding& binding) {
  return with_body(Method::kPost, pod_path(binding.pod) + "/binding", "application/json",
                   binding_json(binding));
}

Request create_storage_capacity(const StorageCapacity& capacity) {
  return with_body(
      Method::kPost, storage_capacities_path(capacity.name_space), "application/json",
      fmt::format(R"({{"apiVersion":"storage.k8s.io/v1","kind":"CSIStorageCapacity",)"
                  R"("metadata":{{"name":{},"namespace":{},{}}},"storageClassName":{}}})",
                  json_string(capacity.name), json_string(capacity.name_space),
                  annotations_json(capacity.annotation, capacity.value),
                  json_string(capacity.storage_class)));
}

Request annotate_storage_capacity(const StorageCapacity& capacity) {
  return with_body(
      Method::kPatch,
      storage_capacities_path(capacity.name_space) + "/" + percent_encoded(capacity.name),
      "application/merge-patch+json",
      fmt::format(R"({{"metadata":{{{}}}}})",
                  annotations_json(capacity.annotation, capacity.value)));
}

Request annotate_node(const NodeName& node, std::string_view key, std::string_view value) {
  return with_body(Method::kPatch, node_path(node), "application/merge-patch+json",
                   fmt::format(R"({{"metadata":{{{}}}}})", annotations_json(key, value)));
}

Request change_node_status(const NodeName& node, const NodeStatusChange& change) {
  return with_body(Method::kPatch, node_path(node) + "/status",
                   "application/strategic-merge-patch+json", status_json(change));
}

Request create_event(const EventObject& event) {
  const std::string time = json_string(event.time);
  return with_body(
      Method::kPost, events_path(event.name_space), "application/json",
      fmt::format(R"({{"apiVersion":"v1","kind":"Event","metadata":{{"name":{},"namespace":{}}},)"
                  R"("involvedObject":{},"reason":{},"message":{},"type":"{}",)"
                  R"("source":{{"component":{},"host":{}}},"reportingComponent":{},)"
                  R"("reportingInstance":{},"firstTimestamp":{},"lastTimestamp":{},"count":1}})",
                  json_string(event.name), json_string(event.name_space), involved_json(event),
                  json_string(event.reason), json_string(event.message),
                  event.warning ? "Warning" : "Normal", json_string(event.component),
                  json_string(event.host), json_string(event.component), json_string(event.host),
                  time, time));
}

Request count_event(std::string_view name_space, std::string_view name, std::uint64_t count,
                    std::string_view time) {
  return with_body(Method::kPatch, events_path(name_space) + "/" + percent_encoded(name),
                   "application/merge-patch+json",
                   fmt::format(R"({{"count":{},"lastTimestamp":{}}})", count, json_string(time)));
}

Request evict(const PodRef& pod, const PodUid& uid) {
  return with_body(
      Method::kPost, pod_path(pod) + "/eviction", "application/json",
      fmt::format(R"({{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":{},)"
                  R"("namespace":{}}},"deleteOptions":{{"preconditions":{{"uid":{}}}}}}})",
                  json_string(pod.name), json_string(pod.name_space), json_string(uid.str())));
}

}  // namespace mgpu::kube
