#include "common/http/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::http {
namespace {

TEST(Address, KnowsLoopback) {
  for (const char* text : {"127.0.0.1", "127.255.0.9", "::1"}) EXPECT_TRUE(is_loopback(text));
  for (const char* text : {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "localhost", "", "127.1"}) {
    EXPECT_FALSE(is_loopback(text)) << text;
  }
}

TEST(Address, ReadsAnEndpoint) {
  EXPECT_EQ(parse_endpoint("127.0.0.1:9802")->address, "127.0.0.1");
  EXPECT_EQ(parse_endpoint("127.0.0.1:9802")->port, 9802);
  EXPECT_EQ(parse_endpoint("[::1]:0")->address, "::1");
  EXPECT_EQ(parse_endpoint("[::1]:0")->port, 0);
}

TEST(Address, RefusesWhatIsNoEndpoint) {
  for (const char* text : {"", ":", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                           "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1:80 ", "localhost:80",
                           "::1:80", "[::1]", "[::1", "[127.0.0.1]:80", "[::1]80", "[]:80"}) {
    const auto read = parse_endpoint(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message,
                testing::EndsWith("is not an IP address and a port such as \"127.0.0.1:9802\" or "
                                  "\"[::1]:9802\""));
  }
}

TEST(Address, AHostIsLocal) {
  for (const char* host : {"localhost", "LocalHost:9800", "127.0.0.1", "127.9.9.9:1", "[::1]",
                           "[::1]:9800", "extender.test", "EXTENDER.test:443"}) {
    EXPECT_TRUE(is_local_host(host, {"Extender.Test"})) << host;
  }
}

TEST(Address, AHostIsNotLocal) {
  for (const char* host :
       {"", "evil.test", "evil.test:9800", "localhost.evil.test", "127.0.0.1.evil.test", "10.0.0.1",
        "0.0.0.0", "::1", "[::1", "[127.0.0.1]", "[localhost]", "localhost:", "localhost:http",
        "localhost:1:2", "user@localhost", "127.0.0.1/x", "local\x00host"}) {
    EXPECT_FALSE(is_local_host(host, {})) << host;
  }
}

}  // namespace
}  // namespace mgpu::http
