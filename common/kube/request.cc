#include "common/kube/request.h"

#include <fmt/format.h>

#include "common/text.h"

namespace mgpu::kube {
namespace {

// RFC 3986: everything but the unreserved characters, so that no name can leave its segment.
std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kUnreserved =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
  // "." and ".." would be taken for steps along the path.
  const bool dots = text == "." || text == "..";
  std::string encoded;
  for (const char c : text) {
    if (!dots && kUnreserved.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string selector_query(const Resource& resource) {
  if (resource.field_selector.empty()) return {};
  return "&fieldSelector=" + percent_encoded(resource.field_selector);
}

std::string pod_path(const PodRef& pod) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}", percent_encoded(pod.space),
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
      json_string(binding.pod.name), json_string(binding.pod.space), json_string(binding.uid.str()),
      annotations, json_string(binding.node.str()));
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
  return get("/api/v1/nodes/" + percent_encoded(node.str()));
}

Request get_version() {
  return get("/version");
}

Request bind(const Binding& binding) {
  Request request;
  request.method = Method::kPost;
  request.target = pod_path(binding.pod) + "/binding";
  request.content_type = "application/json";
  request.body = binding_json(binding);
  return request;
}

}  // namespace mgpu::kube
