#include "common/kube/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

namespace mgpu::kube {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Sets environment variables for one test; nullopt removes one.
class Environment {
 public:
  void set(const std::string& name, const std::optional<std::string>& value) {
    const char* old = std::getenv(name.c_str());
    before_.try_emplace(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    put(name, value);
  }
  ~Environment() {
    for (const auto& [name, value] : before_) put(name, value);
  }

 private:
  static void put(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
  std::map<std::string, std::optional<std::string>> before_;
};

class ConfigTest : public ::testing::Test {
 public:
  ConfigTest()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("config-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    for (const char* name : {"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}) {
      environment_.set(name, std::nullopt);
    }
    environment_.set("HOME", folder_.string());
  }
  ~ConfigTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view text) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

  // A kubeconfig of one cluster and one user with these members.
  Result<Config> load(const std::string& cluster, const std::string& user) {
    return load_kubeconfig(write("kubeconfig",
                                 "current-context: here\n"
                                 "contexts: [{name: here, context: {cluster: c, "
                                 "user: u}}]\n"
                                 "clusters: [{name: c, cluster: {" +
                                     cluster +
                                     "}}]\n"
                                     "users: [{name: u, user: {" +
                                     user + "}}]\n"),
                           "");
  }
  std::string refusal(const Result<Config>& config) {
    return config ? "no error" : config.error().message;
  }

  const std::filesystem::path folder_;
  Environment environment_;
};

constexpr const char* kServer = "server: 'https://10.0.0.1:6443'";

// The form that kubeadm and kind write.
constexpr const char* kKubeconfig = R"(apiVersion: v1
kind: Config
preferences: {}
clusters:
- cluster:
    certificate-authority-data: Y2E=
    server: https://127.0.0.1:45673/
  name: kind-a
- cluster:
    certificate-authority: pki/ca.crt
    server: https://b.test:6443/k8s
    tls-server-name: kubernetes
    proxy-url: http://proxy:3128
  name: kind-b
contexts:
- context: {cluster: kind-a, user: admin, namespace: ml}
  name: a
- context:
    cluster: kind-b
    user: robot
  name: b
current-context: a
users:
- name: admin
  user:
    client-certificate-data: Y2VydA==
    client-key-data: a2V5
- name: robot
  user:
    tokenFile: /var/token
    token: spare
)";

TEST_F(ConfigTest, UsesTheCurrentContextOfAKubeconfig) {
  const auto config = load_kubeconfig(write("k", kKubeconfig), "");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://127.0.0.1:45673");
  EXPECT_EQ(config->ca.pem, "ca");
  EXPECT_EQ(config->client_certificate.pem, "cert");
  EXPECT_EQ(config->client_key.pem, "key");
  EXPECT_EQ(config->token, "");
  EXPECT_FALSE(config->insecure_skip_tls_verify);
}

TEST_F(ConfigTest, UsesTheRequestedContext) {
  const auto config = load_kubeconfig(write("sub/k", kKubeconfig), "b");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://b.test:6443/k8s");
  EXPECT_EQ(config->ca.file, (folder_ / "sub/pki/ca.crt").string());
  EXPECT_EQ(config->tls_server_name, "kubernetes");
  EXPECT_EQ(config->proxy_url, "http://proxy:3128");
  EXPECT_EQ(config->token_file, "/var/token");
  EXPECT_EQ(config->token, "spare");
}

TEST_F(ConfigTest, ReadsAKubeconfigInJson) {
  const auto config = load_kubeconfig(
      write("k", R"({"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c"}}],
                     "clusters":[{"name":"c","cluster":{"server":"http://a:1",
                     "insecure-skip-tls-verify":true}}],"users":null})"),
      "");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "http://a:1");
  EXPECT_TRUE(config->insecure_skip_tls_verify);
}

TEST_F(ConfigTest, ReadsFilesAndPasswordsOfAUser) {
  const auto config = load(kServer,
                           "client-certificate: ../c.crt, client-key: /k, username: me, "
                           "password: secret");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->client_certificate.file, (folder_.parent_path() / "c.crt").string());
  EXPECT_EQ(config->client_key.file, "/k");
  EXPECT_EQ(config->username, "me");
  EXPECT_EQ(config->password, "secret");
}

TEST_F(ConfigTest, RefusesUnsupportedMembersWithTheirPath) {
  struct Case {
    std::string cluster;
    std::string user;
    std::string sentence;
  };
  const std::string server = kServer;
  const Case cases[] = {
      {"", "", "clusters[0].cluster.server must start with https:// or http://, is \"\""},
      {"server: 10.0.0.1", "", "is \"10.0.0.1\""},
      {"server: [a]", "", "clusters[0].cluster.server must be a string"},
      {server + ", certificate-authority-data: '***'", "",
       "certificate-authority-data must be base64"},
      {server + ", certificate-authority-data: Y2E=, certificate-authority: a", "", "has both"},
      {server + ", insecure-skip-tls-verify: maybe", "", "must be true or false"},
      {server + ", insecure-skip-tls-verify: true, certificate-authority: a", "", "has both"},
      {server, "auth-provider: {name: gcp}", "users[0].user.auth-provider is not supported"},
      {server, "as: root", "users[0].user.as is not supported"},
      {server, "client-certificate: a", "both a client certificate and a client key"},
      {server, "client-key-data: a2V5", "both a client certificate and a client key"},
      {server, "client-key-data: a2V5, client-key: a", "has both client-key and client-key-data"},
      {server, "password: secret", "a password without a username"},
      {server, "username: me, token: secret", "both a token and a username"},
      {server, "token: {a: secret}", "users[0].user.token must be a string"},
  };
  for (const Case& each : cases) {
    const std::string message = refusal(load(each.cluster, each.user));
    EXPECT_THAT(message, HasSubstr(each.sentence));
    EXPECT_THAT(message, HasSubstr((folder_ / "kubeconfig").string()));
    EXPECT_THAT(message, Not(HasSubstr("secret")));
  }
}

TEST_F(ConfigTest, NamesTheEntryThatIsMissing) {
  const std::pair<std::string, std::string> cases[] = {
      {"a: b", "current-context is not set"},
      {"current-context: x", "contexts has no entry named \"x\""},
      {"{current-context: x, contexts: 5}", "contexts must be an array"},
      {"{current-context: x}", "contexts has no entry named \"x\""},
      {"{current-context: x, contexts: [5, ~, {name: x}]}", "clusters has no entry named \"\""},
      {"{current-context: x, contexts: [{name: x, context: 5}]}",
       "contexts[0].context must be a map"},
      {"{current-context: x, contexts: [{name: x, context: {cluster: c}}]}",
       "clusters has no entry named \"c\""},
      {"{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],"
       " clusters: [{name: c, cluster: {server: 'http://a'}}]}",
       "users has no entry named \"u\""},
      {"{current-context: x, contexts: [{name: x}, {name: x}]}", "two entries named \"x\""},
  };
  for (const auto& [text, sentence] : cases) {
    EXPECT_THAT(refusal(load_kubeconfig(write("k", text), "")), HasSubstr(sentence)) << text;
  }
}

TEST_F(ConfigTest, RefusesTextThatIsNotAYamlMap) {
  for (const std::string& text :
       {std::string(), std::string("5"), std::string("[a]"), std::string("{"), std::string("\t"),
        std::string("a: b: c"), std::string("\0\xff", 2), std::string("&a [*b]"),
        std::string("<html></html>")}) {
    const std::string message = refusal(load_kubeconfig(write("k", text), "x"));
    EXPECT_THAT(message, HasSubstr("kubeconfig \"")) << text;
  }
}

TEST_F(ConfigTest, SurvivesNestingAndAliasesOfAnyDepth) {
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 64; ++i) {
    const std::string last = std::to_string(i - 1);
    const std::string name = "a" + std::to_string(i);
    bomb += name + ": &" + name + " [*a" + last + ", *a" + last + "]\n";
  }
  std::string dashes;
  std::string indents;
  for (int i = 0; i < 1000; ++i) indents += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  for (int i = 0; i < 20'000; ++i) dashes += "- ";
  for (const std::string& text :
       {bomb, dashes, indents, std::string(20'000, '['), std::string(20'000, '{'),
        std::string("contexts: &x [*x]\ncurrent-context: a\n"), std::string(1 << 20, 'a'),
        std::string("contexts: &x {context: *x, name: *x}\ncurrent-context: a\n")}) {
    EXPECT_NE(refusal(load_kubeconfig(write("k", text), "a")), "no error");
  }
}

TEST_F(ConfigTest, RefusesAFileThatIsTooLargeOrNotRegular) {
  EXPECT_THAT(refusal(load_kubeconfig(write("k", std::string((1 << 20) + 1, '#')), "")),
              HasSubstr("at most 1048576 bytes"));
  EXPECT_THAT(refusal(load_kubeconfig(folder_.string(), "")), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal(load_kubeconfig("/nowhere", "")), HasSubstr("\"/nowhere\""));
}

TEST_F(ConfigTest, ReadsTheServiceAccountOfAPod) {
  write("sa/token", "t");
  write("sa/ca.crt", "c");
  environment_.set("KUBERNETES_SERVICE_PORT", "443");
  for (const auto& [host, server] :
       {std::pair{"10.96.0.1", "https://10.96.0.1:443"}, {"fd00::1", "https://[fd00::1]:443"}}) {
    environment_.set("KUBERNETES_SERVICE_HOST", host);
    const auto config = load_in_cluster((folder_ / "sa").string());
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->server, server);
    EXPECT_EQ(config->ca.file, (folder_ / "sa/ca.crt").string());
    EXPECT_EQ(config->token_file, (folder_ / "sa/token").string());
  }
}

TEST_F(ConfigTest, NamesTheMissingPartOfAServiceAccount) {
  const std::string directory = (folder_ / "sa").string();
  EXPECT_THAT(refusal(load_in_cluster(directory)), HasSubstr("KUBERNETES_SERVICE_HOST"));
  environment_.set("KUBERNETES_SERVICE_HOST", "h");
  EXPECT_THAT(refusal(load_in_cluster(directory)), HasSubstr("KUBERNETES_SERVICE_PORT"));
  environment_.set("KUBERNETES_SERVICE_PORT", "https");
  EXPECT_THAT(refusal(load_in_cluster(directory)), HasSubstr("is \"https\""));
  environment_.set("KUBERNETES_SERVICE_PORT", "443");
  EXPECT_THAT(refusal(load_in_cluster(directory)), HasSubstr("ca.crt"));
  write("sa/ca.crt", "c");
  EXPECT_THAT(refusal(load_in_cluster(directory)), HasSubstr("token"));
  write("sa/token", "");
  EXPECT_THAT(refusal(load_in_cluster(directory)), HasSubstr("is empty"));
}

TEST_F(ConfigTest, TriesItsSourcesInOrder) {
  EXPECT_THAT(refusal(load_config("", "")),
              ::testing::AllOf(HasSubstr("KUBECONFIG"), HasSubstr("KUBERNETES_SERVICE_HOST"),
                               HasSubstr((folder_ / ".kube/config").string())));
  write(".kube/config", kKubeconfig);
  EXPECT_EQ(load_config("", "").value().server, "https://127.0.0.1:45673");
  environment_.set("KUBERNETES_SERVICE_HOST", "10.0.0.1");
  EXPECT_THAT(refusal(load_config("", "")), HasSubstr("in-cluster"));
  environment_.set("KUBECONFIG", write("env", kKubeconfig));
  EXPECT_EQ(load_config("", "b").value().server, "https://b.test:6443/k8s");
  EXPECT_THAT(refusal(load_config("/flag", "")), HasSubstr("\"/flag\""));
}

TEST_F(ConfigTest, OfSeveralFilesTheFirstWithAValueDecides) {
  const std::string contexts = write("contexts", "current-context: one\n");
  const std::string one =
      write("one/k",
            "{current-context: two, contexts: [{name: one, context: {cluster: c, user: u}}],"
            " users: [{name: u, user: {tokenFile: token}}]}");
  const std::string two = write(
      "two/k",
      "{contexts: [{name: one, context: {cluster: d}}, {name: two, context: {cluster: c}}],"
      " clusters: [{name: c, cluster: {server: 'https://c.test', certificate-authority: ca}}]}");
  environment_.set("KUBECONFIG",
                   write("empty", "") + ":/nowhere::" + contexts + ":" + one + ":" + two);
  const auto config = load_config("", "");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://c.test");
  EXPECT_EQ(config->token_file, (folder_ / "one/token").string());
  EXPECT_EQ(config->ca.file, (folder_ / "two/ca").string());
  EXPECT_EQ(load_config("", "two").value().token_file, "");
  EXPECT_THAT(refusal(load_config("", "three")),
              HasSubstr("contexts has no entry named \"three\""));
}

TEST_F(ConfigTest, RefusesAListWithoutAUsableFile) {
  environment_.set("KUBECONFIG", "a:b");
  EXPECT_THAT(refusal(load_config("", "")), HasSubstr("must name a file that exists"));
  environment_.set("KUBECONFIG", write("k", kKubeconfig) + ":" + write("bad", "{"));
  EXPECT_THAT(refusal(load_config("", "")), HasSubstr("bad\": not YAML"));
  std::string many;
  for (int i = 0; i < 40; ++i) many += write("k", kKubeconfig) + ":";
  environment_.set("KUBECONFIG", many);
  EXPECT_THAT(refusal(load_config("", "")), HasSubstr("at most 32 files"));
}

}  // namespace
}  // namespace mgpu::kube
