#include "test/support/node_server.h"

#include <gtest/gtest.h>

#include <utility>

#include "test/support/kube_objects.h"

namespace mgpu::test {
namespace {

using Json = NodeServer::Json;

std::string_view verb(kube::Method method) {
  switch (method) {
    case kube::Method::kGet:
      return "GET";
    case kube::Method::kPost:
      return "POST";
    case kube::Method::kPut:
      return "PUT";
    case kube::Method::kPatch:
      return "PATCH";
    case kube::Method::kDelete:
      break;
  }
  return "DELETE";
}

}  // namespace

NodeServer::NodeServer(std::string node)
    : node_(std::move(node)),
      api_(executor_, {.start = std::chrono::sys_days(std::chrono::year(2026) / 1 / 2)}) {
  api_.set_faults([this](const kube::Request& request) { return observe(request); });
}

std::optional<Fault> NodeServer::observe(const kube::Request& request) {
  if (request.method == kube::Method::kGet) return std::nullopt;
  writes.push_back(std::string(verb(request.method)) + " " + request.target);
  return fault ? fault(request) : std::nullopt;
}

kube::Response NodeServer::call(kube::Method method, const std::string& target,
                                const std::string& body) {
  kube::Request request;
  request.method = method;
  request.target = target;
  request.body = body;
  if (method == kube::Method::kPost) request.content_type = "application/json";
  if (method == kube::Method::kPatch) request.content_type = "application/merge-patch+json";
  const kube::Response response = api_.call(request);
  EXPECT_TRUE(response.ok()) << target << "\n" << response.body;
  return response;
}

void NodeServer::create_node() {
  call(kube::Method::kPost, "/api/v1/nodes", node_json(node_));
}

void NodeServer::delete_node() {
  call(kube::Method::kDelete, "/api/v1/nodes/" + node_, "");
}

void NodeServer::merge(const std::string& path, const Json& patch) {
  call(kube::Method::kPatch, path, patch.dump());
}

Json NodeServer::node() {
  return Json::parse(call(kube::Method::kGet, "/api/v1/nodes/" + node_, "").body);
}

Json NodeServer::condition(const std::string& type) {
  const Json object = node();
  const Json::json_pointer conditions("/status/conditions");
  for (const Json& found : object.value(conditions, Json::array())) {
    if (found["type"] == type) return found;
  }
  return nullptr;
}

std::vector<Json> NodeServer::events(const std::string& name_space) {
  const std::string target = "/api/v1/namespaces/" + name_space + "/events";
  const Json list = Json::parse(call(kube::Method::kGet, target, "").body);
  return list["items"].get<std::vector<Json>>();
}

}  // namespace mgpu::test
