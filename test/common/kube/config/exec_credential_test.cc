#include "common/kube/config/exec_credential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mgpu::kube {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kV1 = "client.authentication.k8s.io/v1";

Config config_with_exec() {
  Config config;
  config.server = "https://10.0.0.1:6443";
  config.exec = ExecConfig{.api_version = kV1, .command = "plugin"};
  return config;
}

TEST(ExecInfo, HasTheVersionOfTheKubeconfigAndWhetherAPersonIsThere) {
  EXPECT_EQ(
      Json::parse(exec_info(config_with_exec(), "", true)),
      Json({{"kind", "ExecCredential"}, {"apiVersion", kV1}, {"spec", {{"interactive", true}}}}));
  EXPECT_EQ(Json::parse(exec_info(config_with_exec(), "", false))["spec"]["interactive"], false);
}

TEST(ExecInfo, DescribesTheClusterWhereThisIsWanted) {
  Config config = config_with_exec();
  config.exec->provide_cluster_info = true;
  EXPECT_EQ(Json::parse(exec_info(config, "", false))["spec"]["cluster"],
            Json({{"server", config.server}}));
  config.tls_server_name = "kubernetes";
  config.proxy_url = "http://proxy:1";
  config.insecure_skip_tls_verify = true;
  config.exec->cluster_config = R"({"audience":"a"})";
  EXPECT_EQ(Json::parse(exec_info(config, "ca", false))["spec"]["cluster"],
            Json({{"server", config.server},
                  {"tls-server-name", "kubernetes"},
                  {"insecure-skip-tls-verify", true},
                  {"certificate-authority-data", "Y2E="},
                  {"proxy-url", "http://proxy:1"},
                  {"config", {{"audience", "a"}}}}));
}

std::string credential_text(const Json& status, const std::string& version = kV1) {
  return Json{{"kind", "ExecCredential"}, {"apiVersion", version}, {"status", status}}.dump();
}

std::string problem_in(const std::string& text) {
  const auto read = read_exec_credential(text, kV1);
  return read ? "" : read.error().message;
}

TEST(ExecCredential, IsATokenOrACertificateOrBoth) {
  const auto token = read_exec_credential(credential_text({{"token", "t"}}), kV1);
  ASSERT_TRUE(token) << token.error().message;
  EXPECT_EQ(token->token, "t");
  EXPECT_TRUE(token->certificate.empty());
  EXPECT_FALSE(token->expires);
  const auto both =
      read_exec_credential(credential_text({{"token", "t"},
                                            {"clientCertificateData", "c"},
                                            {"clientKeyData", "k"},
                                            {"expirationTimestamp", "1970-01-01T00:01:00Z"}}),
                           kV1);
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->certificate.pem, "c");
  EXPECT_EQ(both->key.pem, "k");
  EXPECT_EQ(both->expires, std::chrono::sys_seconds(std::chrono::seconds(60)));
  const auto null =
      read_exec_credential(credential_text({{"token", "t"}, {"clientKeyData", nullptr}}), kV1);
  EXPECT_TRUE(null);
}

TEST(ExecCredential, SaysWhatIsWrongWithoutTheCredential) {
  const std::pair<std::string, std::string> cases[] = {
      {"secret", "its output must be one JSON object of the kind ExecCredential"},
      {"", "its output must be one JSON object"},
      {"[]", "its output must be one JSON object"},
      {credential_text({{"token", "secret"}}) + "x", "its output must be one JSON object"},
      {R"({"status":{"token":"secret"}})", "must have the kind ExecCredential"},
      {credential_text({{"token", "secret"}}, "client.authentication.k8s.io/v1beta1"),
       "its output must have the apiVersion \"client.authentication.k8s.io/v1\" of the kubeconfig, "
       "and "
       "has not"},
      {credential_text(nullptr), "its output has no status"},
      {credential_text("secret"), "its output has no status"},
      {credential_text(Json::object()), "neither a token nor a client certificate"},
      {credential_text({{"clientCertificateData", "secret"}}),
       "both clientCertificateData and clientKeyData, or neither"},
      {credential_text({{"clientKeyData", "secret"}, {"token", "secret"}}),
       "both clientCertificateData and clientKeyData, or neither"},
      {credential_text({{"token", {{"a", "secret"}}}}), "in its output token must be a string"},
      {credential_text({{"token", "secret\nsecret"}}), "one line of printable ASCII"},
      {credential_text({{"token", "secret"}}, "secret"), "its output must have the apiVersion"},
      {credential_text({{"token", "secret"}, {"expirationTimestamp", "secret"}}),
       "its expirationTimestamp must be a time as in RFC 3339, and is not"},
  };
  for (const auto& [text, sentence] : cases) {
    EXPECT_THAT(problem_in(text), HasSubstr(sentence)) << text;
    EXPECT_THAT(problem_in(text), Not(HasSubstr("secret"))) << text;
  }
}

}  // namespace
}  // namespace mgpu::kube
