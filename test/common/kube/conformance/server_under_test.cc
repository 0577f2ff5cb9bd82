#include "test/common/kube/conformance/server_under_test.h"

#include <cstdlib>
#include <map>
#include <random>
#include <utility>

#include "common/base/asio_executor.h"
#include "common/kube/config/config.h"
#include "common/kube/curl/curl_transport.h"
#include "test/support/faulty_api_server.h"

namespace mgpu::test {
namespace {

class MemoryServer final : public ApiServerUnderTest {
 public:
  MemoryServer() : server_(executor_, {.bookmark_interval = Duration(300)}) {}
  ~MemoryServer() override { executor_.stop(); }
  kube::Transport& transport() override { return server_; }
  bool compact() override {
    server_.compact();
    return true;
  }

 private:
  AsioExecutor executor_;
  FaultyApiServer server_;
};

std::unique_ptr<kube::CurlTransport> connect(const kube::Config& config, AsioExecutor& executor) {
  auto transport = kube::CurlTransport::create(config, executor);
  if (transport) return *std::move(transport);
  ADD_FAILURE() << transport.error().message;
  return nullptr;
}

class RealServer final : public ApiServerUnderTest {
 public:
  explicit RealServer(const kube::Config& config) : transport_(connect(config, executor_)) {
    const char* const etcd = std::getenv("MGPU_TEST_ETCD");
    if (etcd == nullptr || *etcd == '\0') return;
    kube::Config plain;
    plain.server = etcd;
    etcd_ = connect(plain, executor_);
  }
  ~RealServer() override { executor_.stop(); }
  bool connected() const { return transport_ != nullptr; }
  kube::Transport& transport() override { return *transport_; }
  bool compact() override {
    if (!etcd_) return false;
    const kube::Response status = call_etcd("/v3/maintenance/status", "{}");
    const Json answer = Json::parse(status.body, nullptr, false);
    if (!answer.is_object() || !answer.contains("header")) return false;
    const Json revision = {{"revision", answer["header"]["revision"]}, {"physical", true}};
    return call_etcd("/v3/kv/compaction", revision.dump()).ok();
  }

 private:
  kube::Response call_etcd(const std::string& target, const std::string& body) {
    kube::Request request;
    request.method = kube::Method::kPost;
    request.target = target;
    request.body = body;
    request.content_type = "application/json";
    return call_and_wait(*etcd_, request);
  }

  AsioExecutor executor_;
  std::unique_ptr<kube::CurlTransport> transport_;
  std::unique_ptr<kube::CurlTransport> etcd_;
};

std::unique_ptr<ApiServerUnderTest> open_real() {
  const char* const kubeconfig = std::getenv("MGPU_TEST_KUBECONFIG");
  if (kubeconfig == nullptr || *kubeconfig == '\0') return nullptr;
  const auto config = kube::load_kubeconfig(kubeconfig, "");
  if (!config) {
    ADD_FAILURE() << config.error().message;
    return nullptr;
  }
  auto server = std::make_unique<RealServer>(*config);
  if (!server->connected()) return nullptr;
  return server;
}

// One server of each kind for the whole run. They are closed before the process ends, since OpenSSL
// cleans up at its exit.
class Servers final : public testing::Environment {
 public:
  // Null: the server is not configured.
  ApiServerUnderTest* open(const std::string& which) {
    const auto [place, is_new] = servers_.try_emplace(which);
    if (!is_new) return place->second.get();
    if (which == "memory") place->second = std::make_unique<MemoryServer>();
    if (which == "real") place->second = open_real();
    return place->second.get();
  }
  void TearDown() override { servers_.clear(); }

 private:
  std::map<std::string, std::unique_ptr<ApiServerUnderTest>> servers_;
};
Servers* const kServers = new Servers;  // GoogleTest owns it
[[maybe_unused]] const auto* const kRegistered = testing::AddGlobalTestEnvironment(kServers);

std::string run_id() {
  static const std::string id = [] {
    std::random_device random;
    return std::to_string(random()) + std::to_string(random() % 1000);
  }();
  return id;
}

}  // namespace

void Conformance::SetUp() {
  server_ = kServers->open(GetParam());
  if (server_ == nullptr) GTEST_SKIP() << "MGPU_TEST_KUBECONFIG names no API server";
  const Answer answer =
      post("/api/v1/namespaces", Json{{"metadata", {{"name", name_space()}}}}.dump());
  ASSERT_TRUE(answer.code == 201 || answer.code == 409) << answer.text;
}

void Conformance::TearDown() {
  for (const std::string& target : created_) remove(target);
}

Conformance::Answer Conformance::call(Method method, const std::string& target,
                                      const std::string& body, const std::string& content_type) {
  kube::Request request;
  request.method = method;
  request.target = target;
  request.body = body;
  if (!body.empty()) request.content_type = content_type;
  const kube::Response response = call_and_wait(server_->transport(), std::move(request));
  EXPECT_FALSE(response.failure) << response.failure->message;
  return {response.status, Json::parse(response.body, nullptr, false), response.body};
}

Conformance::Answer Conformance::merge(const std::string& target, const Json& patch) {
  return call(Method::kPatch, target, patch.dump(), "application/merge-patch+json");
}

Conformance::Answer Conformance::remove(const std::string& target) {
  return call(Method::kDelete, target, R"({"gracePeriodSeconds":0})");
}

std::unique_ptr<WatchLog> Conformance::watch(const std::string& target) {
  kube::Request request;
  request.target = target;
  return watch(std::move(request));
}

std::unique_ptr<WatchLog> Conformance::watch(kube::Request request) {
  return std::make_unique<WatchLog>(server_->transport(), std::move(request));
}

kube::Response Conformance::send(kube::Request request) {
  return call_and_wait(server_->transport(), std::move(request));
}

bool Conformance::compact() {
  return server_->compact();
}

std::string Conformance::name(std::string_view prefix) {
  static int count = 0;
  return std::string(prefix) + "-" + run_id() + "-" + std::to_string(++count);
}

std::string Conformance::name_space() {
  return "conformance-" + run_id();
}

Json Conformance::create(const std::string& collection, const std::string& body) {
  const Answer answer = post(collection, body);
  EXPECT_EQ(answer.code, 201) << answer.text;
  if (answer.code != 201) return {};
  created_.push_back(collection + "/" + answer.body["metadata"]["name"].get<std::string>());
  return answer.body;
}

Json Conformance::create_node(const std::string& node, const Amounts& capacity) {
  return create("/api/v1/nodes", node_json(node, capacity));
}

Json Conformance::create_pod(const std::string& pod, const Amounts& limits) {
  return create(pods(), pod_json(pod, limits));
}

Conformance::Answer Conformance::bind(const std::string& pod, const std::string& node,
                                      const std::string& uid) {
  const Answer answer = post(pod_path(pod) + "/binding", binding_json(pod, node, uid));
  // A real server's cache has caught up when this is answered. Until then a delete may treat
  // the pod as unbound, and remove it at once.
  get(pods());
  return answer;
}

std::string version_of(const Json& object) {
  return object.at("metadata").at("resourceVersion").get<std::string>();
}

Json next_event(WatchLog& watch) {
  const auto line = watch.next();
  return line ? Json::parse(*line, nullptr, false) : Json();
}

}  // namespace mgpu::test
