// The Host header of requests to a server on a loopback address.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/common/http/served.h"
#include "test/support/raw_http.h"

namespace mgpu::http {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string with_host(const std::string& host) {
  return "POST /x HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 2\r\n\r\nab";
}

TEST(ServerHost, LocalAndConfiguredNamesAreServed) {
  ServerOptions options;
  options.host_names = {"extender.test"};
  Served served(describe, options);
  for (const char* host : {"localhost:9800", "127.0.0.1", "[::1]:1", "extender.test"}) {
    EXPECT_EQ(served.ask(with_host(host)).status, 200) << host;
  }
  EXPECT_THAT(served.refused.all(), IsEmpty());
}

TEST(ServerHost, AnotherNameIsRefusedBeforeTheBodyIsRead) {
  bool called = false;
  Served served([&](const Request&, const Respond& respond) {
    called = true;
    respond({});
  });
  auto client = served.connect();
  client.send("POST /x HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 1000\r\n\r\n");
  const auto answer = client.read_response();
  EXPECT_EQ(answer.status, 421);
  EXPECT_EQ(answer.body,
            "{\"error\": \"Host must be localhost, a loopback address or an allowed name, is "
            "\\\"evil.test\\\"\"}\n");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(client.ends());
  EXPECT_FALSE(called);
  EXPECT_THAT(served.refused.all(), ElementsAre("host"));
}

TEST(ServerHost, AMissingOrRepeatedHostIsRefused) {
  Served served(describe);
  EXPECT_EQ(served.ask("GET / HTTP/1.1\r\n\r\n").status, 421);
  EXPECT_EQ(served.ask("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.test\r\n\r\n").status, 421);
  EXPECT_EQ(served.ask("GET / HTTP/1.0\r\n\r\n").status, 200) << "HTTP/1.0 has no Host";
}

TEST(ServerHost, AWebPageOfAnotherHostIsRefused) {
  Served served(describe);
  const auto status_of = [&](const std::string& origin) {
    return served
        .ask("POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: " + origin +
             "\r\nContent-Length: 0\r\n\r\n")
        .status;
  };
  EXPECT_EQ(status_of("http://localhost:3000"), 200);
  EXPECT_EQ(status_of("https://[::1]"), 200);
  for (const char* origin : {"http://evil.test", "https://localhost.evil.test:443", "null", ""}) {
    EXPECT_EQ(status_of(origin), 403) << origin;
  }
  EXPECT_THAT(served.refused.all(), ElementsAre("origin", "origin", "origin", "origin"));
}

// Requests without Origin, as those of images and of fetch() in the mode no-cors.
TEST(ServerHost, OfAnotherSiteOnlyAVisitIsServed) {
  Served served(describe);
  const auto status_of = [&](const std::string& site, const std::string& mode,
                             const std::string& destination) {
    return served
        .ask("GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: " + site +
             "\r\nSec-Fetch-Mode: " + mode + "\r\nSec-Fetch-Dest: " + destination + "\r\n\r\n")
        .status;
  };
  EXPECT_EQ(status_of("cross-site", "no-cors", "image"), 403);
  EXPECT_EQ(status_of("same-site", "no-cors", "empty"), 403);
  EXPECT_EQ(status_of("cross-site", "navigate", "iframe"), 403);
  EXPECT_EQ(status_of("cross-site", "navigate", "document"), 200);
  EXPECT_EQ(status_of("same-origin", "cors", "empty"), 200);
  EXPECT_EQ(status_of("none", "navigate", "document"), 200);
}

TEST(ServerHost, IsNotCheckedOnOtherAddresses) {
  ServerOptions options;
  options.address = "0.0.0.0";
  auto server = Server::start(options, describe, {});
  ASSERT_TRUE(server) << server.error().message;
  test::RawClient client((*server)->port());
  client.send(with_host("extender.kube-system.svc"));
  EXPECT_EQ(client.read_response().status, 200);
}

}  // namespace
}  // namespace mgpu::http
