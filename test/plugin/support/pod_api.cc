#include "test/plugin/support/pod_api.h"

#include <gtest/gtest.h>

#include <optional>

#include "common/kube/objects/object_json.h"
#include "test/support/kube_objects.h"

namespace mgpu::test {

using namespace plugin;

namespace {

using kube::Method;

const std::string kPods = "/api/v1/namespaces/ml/pods";

std::string content_type(Method method) {
  if (method == Method::kPost) return "application/json";
  return method == Method::kPatch ? "application/merge-patch+json" : "";
}

}  // namespace

PodApi::PodApi()
    : server_(std::make_unique<FaultyApiServer>(executor_, FaultyApiServer::Options())) {}

PodApi::~PodApi() {
  executor_.stop();
  server_.reset();
}

PodApi::Json PodApi::call(Method method, const std::string& target, const std::string& body) {
  kube::Request request;
  request.method = method;
  request.target = target;
  request.body = body;
  if (!body.empty()) {
    request.content_type = method == Method::kDelete ? "application/json" : content_type(method);
  }
  const kube::Response response = server_->call(request);
  EXPECT_TRUE(response.ok()) << target << "\n" << response.body;
  return Json::parse(response.body, nullptr, false);
}

kube::Pod PodApi::create(const std::string& name, const std::vector<GpuContainer>& containers) {
  return kube::read_pod(call(Method::kPost, kPods, gpu_pod_json(name, containers)).dump()).value();
}

void PodApi::remove(const std::string& name) {
  call(Method::kDelete, kPods + "/" + name, R"({"gracePeriodSeconds": 0})");
}

void PodApi::set_phase(const std::string& name, const std::string& phase) {
  const Json patch = {{"status", {{"phase", phase}}}};
  call(Method::kPatch, kPods + "/" + name + "/status", patch.dump());
}

void PodApi::set_container_id(const std::string& name, const std::string& container,
                              const std::string& id) {
  const Json status = {{"name", container}, {"containerID", "containerd://" + id}};
  const Json patch = {{"status", {{"containerStatuses", Json::array({status})}}}};
  call(Method::kPatch, kPods + "/" + name + "/status", patch.dump());
}

void PodApi::set_running(const std::string& name, const std::string& container,
                         const std::string& id) {
  const Json status = {{"name", container},
                       {"containerID", "containerd://" + id},
                       {"state", {{"running", {{"startedAt", "2026-01-02T03:04:05Z"}}}}}};
  const Json patch = {
      {"status", {{"phase", "Running"}, {"containerStatuses", Json::array({status})}}}};
  call(Method::kPatch, kPods + "/" + name + "/status", patch.dump());
}

void PodApi::annotate(const std::string& name, const std::string& key, const std::string& value) {
  const Json patch = {{"metadata", {{"annotations", {{key, value}}}}}};
  call(Method::kPatch, kPods + "/" + name, patch.dump());
}

PodApi::Json PodApi::pod(const std::string& name) {
  return call(Method::kGet, kPods + "/" + name);
}

void PodApi::create_node() {
  call(Method::kPost, "/api/v1/nodes", node_json("n1"));
}

PodApi::Json PodApi::node() {
  return call(Method::kGet, "/api/v1/nodes/n1");
}

PodApi::Json PodApi::condition(const std::string& type) {
  const Json object = node();
  for (const Json& found : object.value(Json::json_pointer("/status/conditions"), Json::array())) {
    if (found["type"] == type) return found;
  }
  return nullptr;
}

std::vector<PodApi::Json> PodApi::events(const std::string& name_space) {
  return call(Method::kGet, "/api/v1/namespaces/" + name_space + "/events")["items"]
      .get<std::vector<Json>>();
}

void PodApi::cut_off(bool off) {
  server_->set_faults([off](const kube::Request&) -> std::optional<Fault> {
    if (!off) return std::nullopt;
    return Fault{.kind = Fault::Kind::kRefuse};
  });
  if (off) server_->drop_watches();
}

void PodApi::cut_off_watches() {
  server_->set_faults([](const kube::Request& request) -> std::optional<Fault> {
    if (request.target.find('?') == std::string::npos) return std::nullopt;
    return Fault{.kind = Fault::Kind::kRefuse};
  });
  server_->drop_watches();
}

}  // namespace mgpu::test
