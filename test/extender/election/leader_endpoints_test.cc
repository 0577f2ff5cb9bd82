#include "extender/election/leader_endpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/apiserver/api_server.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const kube::ObjectRef kEndpointsLease{"kube-system", "mgpu-extender"};
const kube::ObjectRef kService{"kube-system", "mgpu-extender"};

class LeaderEndpointsTest : public testing::Test {
 protected:
  void create_service(const Json& selector = Json::object()) {
    Json spec = {{"ports", {{{"name", "verbs"}, {"port", 9800}}}}};
    if (!selector.empty()) spec["selector"] = selector;
    const Json service = {{"apiVersion", "v1"},
                          {"kind", "Service"},
                          {"metadata", {{"name", "mgpu-extender"}}},
                          {"spec", spec}};
    kube::Request request;
    request.method = kube::Method::kPost;
    request.target = "/api/v1/namespaces/kube-system/services";
    request.content_type = "application/json";
    request.body = service.dump();
    const kube::Response created = server.call(request);
    ASSERT_TRUE(created.ok()) << created.body;
  }
  void lead(HolderLease& lease, LeaderEndpoints& endpoints) {
    lease.take([](const kube::ApiResult<void>& taken) { ASSERT_TRUE(taken); });
    executor.run_ready();
    executor.post([&endpoints] { endpoints.start(9801); });
    executor.advance(milliseconds(10));
  }
  std::optional<kube::EndpointSlice> slice() {
    const auto answer = server.call(kube::get_endpoint_slice(kService));
    if (!answer.ok()) return std::nullopt;
    return kube::read_endpoint_slice(answer.body).value();
  }

  mgpu::test::ManualExecutor executor;
  kube::MemoryApiServer server{executor, {}};
  kube::Client client{server};
  std::vector<std::string> problems;
  HolderLease a{client, kEndpointsLease, "a", [](const std::string&) {}};
  HolderLease b{client, kEndpointsLease, "b", [](const std::string&) {}};
  LeaderEndpoints of_a{client, a, {kService, "10.0.0.1"}, [this](const std::string& why) {
                         problems.push_back(why);
                       }};
  LeaderEndpoints of_b{client, b, {kService, "10.0.0.2"}, [this](const std::string& why) {
                         problems.push_back(why);
                       }};
};

TEST_F(LeaderEndpointsTest, TheLeaderIsTheOnlyEndpoint) {
  create_service();
  lead(a, of_a);
  ASSERT_TRUE(slice());
  EXPECT_THAT(slice()->addresses, ElementsAre("10.0.0.1"));
  EXPECT_EQ(slice()->address_type, "IPv4");
  EXPECT_EQ(slice()->port, 9801);
  EXPECT_EQ(slice()->port_name, "verbs");
  EXPECT_THAT(slice()->metadata.labels, Contains(std::pair<const std::string, std::string>(
                                            "kubernetes.io/service-name", "mgpu-extender")));
  EXPECT_THAT(problems, IsEmpty());
}

TEST_F(LeaderEndpointsTest, TheNextLeaderReplacesIt) {
  create_service();
  lead(a, of_a);
  lead(b, of_b);
  EXPECT_THAT(slice()->addresses, ElementsAre("10.0.0.2"));
  // The first one has lost the Lease: it does not write again.
  executor.advance(seconds(60));
  EXPECT_THAT(slice()->addresses, ElementsAre("10.0.0.2"));
}

TEST_F(LeaderEndpointsTest, ASliceThatWasDeletedIsWrittenAgain) {
  create_service();
  lead(a, of_a);
  kube::Request remove = kube::get_endpoint_slice(kService);
  remove.method = kube::Method::kDelete;
  ASSERT_TRUE(server.call(remove).ok());
  executor.advance(seconds(11));
  ASSERT_TRUE(slice());
  EXPECT_THAT(slice()->addresses, ElementsAre("10.0.0.1"));
}

TEST_F(LeaderEndpointsTest, WaitsForTheService) {
  lead(a, of_a);
  EXPECT_FALSE(slice());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("get service kube-system/mgpu-extender")));
  create_service();
  executor.advance(seconds(2));
  EXPECT_TRUE(slice());
}

TEST_F(LeaderEndpointsTest, AServiceWithASelectorIsAProblem) {
  create_service({{"app", "mgpu-extender"}});
  lead(a, of_a);
  EXPECT_FALSE(slice());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("expected a Service without spec.selector")));
}

}  // namespace
}  // namespace mgpu::extender
