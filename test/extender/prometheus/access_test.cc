#include "extender/prometheus/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mgpu::promql {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string problem_of(const Access& access) {
  const auto config = config_of(access);
  return config ? "no error" : config.error().message;
}

TEST(PrometheusAccess, TakesAnAddressWithAPath) {
  const auto config = config_of({"https://example.com:9090/prometheus/", "/etc/ca.crt", "/token"});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://example.com:9090/prometheus");
  EXPECT_EQ(config->ca.file, "/etc/ca.crt");
  EXPECT_EQ(config->token_file, "/token");
  EXPECT_FALSE(config->insecure_skip_tls_verify);
}

TEST(PrometheusAccess, TakesHttpWithoutAToken) {
  EXPECT_EQ(problem_of({"http://prometheus.monitoring:9090"}), "no error");
}

TEST(PrometheusAccess, SendsATokenOverHttpToThisMachineOnly) {
  for (const char* url : {"http://127.0.0.1:9090", "http://127.0.0.2", "http://[::1]:9090/x",
                          "http://localhost", "http://LOCALHOST:9090"}) {
    EXPECT_EQ(problem_of({url, "", "/token"}), "no error") << url;
  }
  for (const char* url : {"http://127.0.0.1.example.com", "http://localhost.example.com:9090",
                          "http://[::1].example.com", "http://10.0.0.1"}) {
    EXPECT_THAT(problem_of({url, "", "/token"}),
                HasSubstr("--prometheus-token-file needs an https:// address"))
        << url;
  }
}

TEST(PrometheusAccess, NamesTheTenant) {
  const auto config = config_of({"https://mimir", "", "", "team-a"});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->headers,
              testing::ElementsAre("X-Scope-OrgID: team-a", "THANOS-TENANT: team-a"));
  for (const char* tenant : {"a b", "a\r\nHost: x", "a|b", "\xc3\xa4"}) {
    EXPECT_THAT(problem_of({"https://mimir", "", "", tenant}),
                HasSubstr("--prometheus-tenant must have"));
  }
}

TEST(PrometheusAccess, RefusesACertificateAuthorityWithoutTls) {
  EXPECT_THAT(problem_of({"http://10.0.0.1", "/etc/ca.crt"}),
              HasSubstr("--prometheus-ca needs an https:// address in --prometheus-url"));
}

TEST(PrometheusAccess, RefusesWhatIsNoAddress) {
  for (const char* url :
       {"prometheus:9090", "ftp://host", "http://", "http:///path", "https://",
        "http://host/?query=up", "http://host/#x", "http://ho st", "http://h\n"}) {
    EXPECT_THAT(problem_of({url}), HasSubstr("--prometheus-url must be http:// or https://"))
        << url;
  }
  EXPECT_THAT(problem_of({"http://" + std::string(3'000, 'a')}), HasSubstr("--prometheus-url"));
}

TEST(PrometheusAccess, DoesNotShowAPassword) {
  const std::string problem = problem_of({"https://user:secret@host"});
  EXPECT_THAT(problem, HasSubstr("must not contain credentials"));
  EXPECT_THAT(problem, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace mgpu::promql
