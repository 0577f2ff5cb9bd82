#include "test/plugin/kubelet/fake_services.h"

#include <grpcpp/grpcpp.h>
#include <podresources.grpc.pb.h>
#include <runtime.grpc.pb.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <utility>

#include "common/base/check.h"

namespace mgpu::test {

namespace {

std::unique_ptr<grpc::Server> serve(const std::string& socket, grpc::Service& service) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  MGPU_CHECK(server != nullptr, "a socket can be served");
  return server;
}

// "8 too often"
grpc::Status status_of(const std::string& text) {
  if (text.empty()) return grpc::Status::OK;
  int code = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), code).ptr;
  return {static_cast<grpc::StatusCode>(code), std::string(end, text.data() + text.size())};
}

v1::PodResources& pod_of(v1::ListPodResourcesResponse& response, const std::string& pod) {
  const std::size_t slash = pod.find('/');
  const std::string name_space = pod.substr(0, slash);
  const std::string name = pod.substr(slash + 1);
  auto& pods = *response.mutable_pod_resources();
  if (pods.empty() || pods.rbegin()->name() != name || pods.rbegin()->namespace_() != name_space) {
    auto& added = *pods.Add();
    added.set_name(name);
    added.set_namespace_(name_space);
  }
  return *pods.rbegin();
}

v1::ContainerResources& container_of(v1::PodResources& pod, const std::string& name) {
  auto& containers = *pod.mutable_containers();
  if (containers.empty() || containers.rbegin()->name() != name) containers.Add()->set_name(name);
  return *containers.rbegin();
}

}  // namespace

struct FakePodResources::State final : v1::PodResourcesLister::Service {
  grpc::Status List(grpc::ServerContext*, const v1::ListPodResourcesRequest*,
                    v1::ListPodResourcesResponse* response) override {
    const int call = ++calls;
    if (verdict) {
      const grpc::Status status = status_of(verdict(call));
      if (!status.ok()) return status;
    }
    *response = answer;
    return grpc::Status::OK;
  }

  v1::ListPodResourcesResponse answer;
  Verdict verdict;
  std::atomic<int> calls = 0;
  std::unique_ptr<grpc::Server> server;
};

FakePodResources::FakePodResources(const std::string& socket, std::vector<DeviceEntry> entries,
                                   Verdict verdict)
    : state_(std::make_unique<State>()) {
  state_->verdict = std::move(verdict);
  for (const DeviceEntry& entry : entries) {
    auto& container = container_of(pod_of(state_->answer, entry.pod), entry.container);
    auto& devices = *container.add_devices();
    devices.set_resource_name(entry.resource);
    for (const std::string& id : entry.ids) devices.add_device_ids(id);
  }
  state_->server = serve(socket, *state_);
}

FakePodResources::~FakePodResources() {
  state_->server->Shutdown(std::chrono::system_clock::now());
}

int FakePodResources::calls() const {
  return state_->calls;
}

struct FakeRuntime::State final : runtime::v1::RuntimeService::Service {
  grpc::Status Version(grpc::ServerContext*, const runtime::v1::VersionRequest*,
                       runtime::v1::VersionResponse* response) override {
    response->set_runtime_name(name);
    response->set_runtime_version(version);
    return grpc::Status::OK;
  }
  grpc::Status Status(grpc::ServerContext*, const runtime::v1::StatusRequest* request,
                      runtime::v1::StatusResponse* response) override {
    if (!failure.empty()) return status_of(failure);
    if (request->verbose()) response->mutable_info()->insert(verbose.begin(), verbose.end());
    return grpc::Status::OK;
  }

  std::string name;
  std::string version;
  std::map<std::string, std::string> verbose;
  std::string failure;
  std::unique_ptr<grpc::Server> server;
};

FakeRuntime::FakeRuntime(const std::string& socket, std::string name, std::string version,
                         std::map<std::string, std::string> verbose, std::string failure)
    : state_(std::make_unique<State>()) {
  state_->name = std::move(name);
  state_->version = std::move(version);
  state_->verbose = std::move(verbose);
  state_->failure = std::move(failure);
  state_->server = serve(socket, *state_);
}

FakeRuntime::~FakeRuntime() {
  state_->server->Shutdown(std::chrono::system_clock::now());
}

}  // namespace mgpu::test
