// The listener for probes, metrics and inspection, over real HTTP.
#include "common/program/service_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "test/support/certificates.h"
#include "test/support/faulty_api_server.h"
#include "test/support/raw_http.h"

namespace mgpu {
namespace {

using testing::HasSubstr;

class ServiceServerTest : public testing::Test {
 protected:
  ServiceServerTest() {
    api_.set_token("good",
                   {.name = "reader", .uid = {}, .groups = {"system:masters"}, .extra = {}});
    for (const char* path : {"/healthz", "/livez", "/readyz", "/metrics", "/inspect/cluster"}) {
      router_.add("GET", path, [](const http::Request& request, const http::Respond& respond) {
        respond({.body = request.path + request.authorization});
      });
    }
  }
  ~ServiceServerTest() override {
    service_.reset();
    executor_.stop();
  }

  void start(ServiceOptions options) {
    auto started = ServiceServer::start(options, router_, api_,
                                        server_events(metrics_, "mgpu_test", "metrics"));
    ASSERT_TRUE(started) << started.error().message;
    service_ = std::move(*started);
  }
  void start_on(const std::string& address, bool insecure) {
    ServiceOptions options;
    options.http.address = address;
    options.insecure = insecure;
    start(options);
  }
  test::RawResponse get(const std::string& path, const std::string& token = "") const {
    test::RawClient client(service_->port());
    client.send(request(path, token));
    return client.read_response();
  }
  static std::string request(const std::string& path, const std::string& token) {
    const std::string header = token.empty() ? "" : "Authorization: Bearer " + token + "\r\n";
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n";
  }

  AsioExecutor executor_;
  test::FaultyApiServer api_{executor_, {}};
  http::Router router_;
  Metrics metrics_;
  std::unique_ptr<ServiceServer> service_;
};

TEST_F(ServiceServerTest, ServesEverythingOnLoopback) {
  start_on("127.0.0.1", false);
  for (const char* path : {"/readyz", "/metrics", "/inspect/cluster"}) {
    EXPECT_EQ(get(path).status, 200) << path;
  }
}

TEST_F(ServiceServerTest, ProbesNeedNoTokenAnywhere) {
  for (const bool insecure : {false, true}) {
    start_on("0.0.0.0", insecure);
    for (const char* path : {"/healthz", "/livez", "/readyz"}) {
      EXPECT_EQ(get(path).status, 200) << path;
    }
  }
}

TEST_F(ServiceServerTest, OtherPathsNeedATokenOnOtherAddresses) {
  start_on("0.0.0.0", true);
  const auto without = get("/metrics");
  EXPECT_EQ(without.status, 401);
  EXPECT_EQ(without.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(get("/metrics", "bad").status, 401);
  EXPECT_EQ(get("/metrics", "good").body, "/metrics") << "handlers do not get the token";
  EXPECT_EQ(get("/nothing").status, 401) << "who has no token does not learn which paths exist";
  EXPECT_EQ(get("/nothing", "good").status, 404);
}

TEST_F(ServiceServerTest, RefusesTokensWithoutTls) {
  start_on("0.0.0.0", false);
  const auto answer = get("/metrics", "good");
  EXPECT_EQ(answer.status, 403);
  EXPECT_THAT(answer.body, HasSubstr("need TLS on this address"));
}

TEST_F(ServiceServerTest, AcceptsTokensOverTls) {
  const test::Certificates certificates;
  const auto ca = certificates.authority("ca");
  const auto files = certificates.issue("server", ca);
  ServiceOptions options;
  options.http.address = "0.0.0.0";
  options.http.tls = {.certificate_file = files.certificate, .key_file = files.key};
  start(options);
  test::RawClient client(service_->port(), {.ca_file = ca.certificate});
  client.send(request("/metrics", ""));
  EXPECT_EQ(client.read_response().status, 401);
  client.send(request("/metrics", "good"));
  EXPECT_EQ(client.read_response().status, 200);
  client.send(request("/readyz", ""));
  EXPECT_EQ(client.read_response().status, 200);
}

// `kubectl port-forward` connects to a loopback address of the pod.
TEST_F(ServiceServerTest, TheLocalListenerNeedsNoTokenBesideOneForTheNetwork) {
  ServiceOptions options;
  options.http.address = "0.0.0.0";
  options.insecure = true;
  options.local = http::Endpoint{.address = "127.0.0.1", .port = 0};
  start(options);
  EXPECT_EQ(get("/metrics").status, 401);
  test::RawClient client(service_->local_port());
  client.send(request("/metrics", ""));
  EXPECT_EQ(client.read_response().status, 200);
  client.send("GET /metrics HTTP/1.1\r\nHost: evil.test\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 421);
}

TEST_F(ServiceServerTest, EndsWhileATokenIsBeingChecked) {
  std::atomic<bool> reached = false;
  api_.set_faults([&](const kube::Request&) {
    reached = true;
    return test::Fault{.kind = test::Fault::Kind::kDelay, .delay = Duration(200)};
  });
  start_on("0.0.0.0", true);
  test::RawClient client(service_->port());
  client.send(request("/metrics", "good"));
  while (!reached) std::this_thread::yield();
  service_.reset();
  EXPECT_EQ(client.read_response().status, 200) << "a pending request is answered";
}

TEST_F(ServiceServerTest, CountsRefusedConnections) {
  start_on("127.0.0.1", false);
  test::RawClient client(service_->port());
  client.send("GET /metrics HTTP/1.1\r\nHost: evil.test\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 421);
  EXPECT_THAT(metrics_.text(),
              HasSubstr("mgpu_test_http_refused_total{listener=\"metrics\",why=\"host\"} 1"));
}

}  // namespace
}  // namespace mgpu
