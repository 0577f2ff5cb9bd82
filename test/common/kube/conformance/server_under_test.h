// The API servers that the conformance suite runs against: "memory" always; "real", the one that
// the kubeconfig in MGPU_TEST_KUBECONFIG names. MGPU_TEST_ETCD may name its etcd
// ("http://127.0.0.1:2379"), so that the suite can compact its history.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/kube/transport.h"
#include "test/support/api_calls.h"
#include "test/support/kube_objects.h"

namespace mgpu::test {

using Json = nlohmann::json;

class ApiServerUnderTest {
 public:
  virtual ~ApiServerUnderTest() = default;
  virtual kube::Transport& transport() = 0;
  // Removes the history up to now; false where that is not possible.
  virtual bool compact() = 0;
};

// A test against one of the servers. Objects are in a namespace of this run, or have a name of this
// run, and are deleted when the test ends.
class Conformance : public testing::TestWithParam<std::string> {
 protected:
  using Method = kube::Method;

  void SetUp() override;
  void TearDown() override;

  struct Answer {
    int code = 0;
    Json body;
    std::string text;
  };
  Answer call(Method method, const std::string& target, const std::string& body = "",
              const std::string& content_type = "application/json");
  Answer get(const std::string& target) { return call(Method::kGet, target); }
  Answer post(const std::string& target, const std::string& body) {
    return call(Method::kPost, target, body);
  }
  Answer put(const std::string& target, const Json& body) {
    return call(Method::kPut, target, body.dump());
  }
  Answer merge(const std::string& target, const Json& patch);
  // With gracePeriodSeconds 0, since no kubelet will delete the pod.
  Answer remove(const std::string& target);
  std::unique_ptr<WatchLog> watch(const std::string& target);
  std::unique_ptr<WatchLog> watch(kube::Request request);
  kube::Response send(kube::Request request);
  bool compact();

  std::string name(std::string_view prefix);
  std::string node_path(const std::string& node) { return "/api/v1/nodes/" + node; }
  std::string pods() { return "/api/v1/namespaces/" + name_space() + "/pods"; }
  std::string pod_path(const std::string& pod) { return pods() + "/" + pod; }
  std::string name_space();

  // Creates an object that is deleted when the test ends. Returns the object of the answer; null
  // where the request was refused.
  Json create(const std::string& collection, const std::string& body);
  Json create_node(const std::string& node, const Amounts& capacity = {});
  Json create_pod(const std::string& pod, const Amounts& limits = {});
  Answer bind(const std::string& pod, const std::string& node, const std::string& uid = "");

 private:
  ApiServerUnderTest* server_ = nullptr;
  std::vector<std::string> created_;
};

std::string version_of(const Json& object);
// {"type": ..., "object": ...}, or null at the end of the watch.
Json next_event(WatchLog& watch);

// Runs a suite against every server.
#define MGPU_CONFORMANCE_SUITE(suite)                                        \
  class suite : public Conformance {};                                       \
  INSTANTIATE_TEST_SUITE_P(Server, suite, testing::Values("memory", "real"), \
                           [](const auto& param_of) { return param_of.param; })

}  // namespace mgpu::test
