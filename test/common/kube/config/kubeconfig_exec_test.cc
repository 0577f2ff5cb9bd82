// Users with a credential plugin in a kubeconfig.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/kube/config/config.h"
#include "common/yaml/limits.h"

namespace mgpu::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class KubeconfigExec : public testing::Test {
 protected:
  KubeconfigExec()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("kubeconfig-exec-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~KubeconfigExec() override { std::filesystem::remove_all(folder_); }

  Result<Config> load(const std::string& user, const std::string& cluster = "") const {
    const std::string path = folder_ / "kubeconfig";
    std::ofstream(path) << "current-context: here\n"
                        << "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
                        << "clusters: [{name: c, cluster: {server: 'https://a'" << cluster
                        << "}}]\n"
                        << "users: [{name: u, user: {" << user << "}}]\n";
    return load_kubeconfig(path, "");
  }
  std::string refusal(const std::string& user, const std::string& cluster = "") const {
    const auto config = load(user, cluster);
    return config ? "no error" : config.error().message;
  }

  const std::filesystem::path folder_;
};

const std::string kExecV1 = "apiVersion: client.authentication.k8s.io/v1, ";
const std::string kBeta = "apiVersion: client.authentication.k8s.io/v1beta1, ";

TEST_F(KubeconfigExec, IsRead) {
  const auto config = load(
      "exec: {" + kExecV1 +
      "command: aws, args: [eks, get-token, 5], env: [{name: AWS_PROFILE, value: dev}, "
      "{name: EMPTY}], interactiveMode: Never, provideClusterInfo: true, installHint: Get it}");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_TRUE(config->exec);
  EXPECT_EQ(config->exec->api_version, "client.authentication.k8s.io/v1");
  EXPECT_EQ(config->exec->command, "aws");
  EXPECT_THAT(config->exec->arguments, ElementsAre("eks", "get-token", "5"));
  EXPECT_THAT(config->exec->variables, ElementsAre("AWS_PROFILE=dev", "EMPTY="));
  EXPECT_EQ(config->exec->interactive, ExecConfig::Interactive::kNever);
  EXPECT_TRUE(config->exec->provide_cluster_info);
  EXPECT_EQ(config->exec->install_hint, "Get it");
}

TEST_F(KubeconfigExec, HasDefaultsInTheBetaVersion) {
  const auto config = load("exec: {" + kBeta + "command: p}");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->exec->interactive, ExecConfig::Interactive::kIfAvailable);
  EXPECT_FALSE(config->exec->provide_cluster_info);
  EXPECT_THAT(config->exec->arguments, IsEmpty());
  EXPECT_EQ(config->exec->cluster_config, "");
}

TEST_F(KubeconfigExec, ACommandWithAFolderIsRelativeToTheKubeconfig) {
  const auto command = [this](const std::string& text) {
    return load("exec: {" + kBeta + "command: " + text + "}")->exec->command;
  };
  EXPECT_EQ(command("p"), "p");
  EXPECT_EQ(command("./p"), (folder_ / "p").string());
  EXPECT_EQ(command("bin/p"), (folder_ / "bin/p").string());
  EXPECT_EQ(command("/bin/p"), "/bin/p");
}

TEST_F(KubeconfigExec, ACommandBesideAKubeconfigWithoutAFolderIsNotSearchedForInThePath) {
  ASSERT_TRUE(load("exec: {" + kBeta + "command: ./p}"));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const auto config = load_kubeconfig("kubeconfig", "");
  const std::string here = std::filesystem::current_path();
  std::filesystem::current_path(before);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->exec->command, here + "/p");
}

TEST_F(KubeconfigExec, TheExtensionOfTheClusterBecomesJson) {
  const auto config_of = [this](const std::string& extension) {
    const auto config = load("exec: {" + kBeta + "command: p}",
                             ", extensions: [{name: other, extension: 1}, {name: "
                             "client.authentication.k8s.io/exec, extension: " +
                                 extension + "}]");
    return config ? config->exec->cluster_config : config.error().message;
  };
  EXPECT_EQ(config_of("{audience: \"5\", n: 5, half: 0.5, on: true, list: [a, ~], none: {}}"),
            R"({"audience":"5","n":5,"half":0.5,"on":true,"list":["a",null],"none":{}})");
  EXPECT_EQ(config_of("\"a\\\"\\n\""), R"("a\"\n")");
  std::string deep = "1";
  for (int i = 0; i < yaml::kDepthMax; ++i) deep = "[" + deep + "]";
  EXPECT_THAT(config_of(deep), HasSubstr(": is nested deeper than 64 levels"));
}

TEST_F(KubeconfigExec, MergeKeysAreMerged) {
  const auto config = load("exec: {<<: {" + kBeta + "command: p}, args: [a]}");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->exec->command, "p");
}

TEST_F(KubeconfigExec, AliasesDoNotMakeTheExtensionLong) {
  std::string text = "{a0: &a0 [x, x]";
  for (int i = 1; i < 40; ++i) {
    const std::string last = std::to_string(i - 1);
    text += ", a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + last + ", *a" + last +
            "]";
  }
  EXPECT_THAT(refusal("exec: {" + kBeta + "command: p}",
                      ", extensions: [{name: client.authentication.k8s.io/exec, extension: " +
                          text + "}}]"),
              HasSubstr("has aliases that repeat too much"));
}

TEST_F(KubeconfigExec, IsRefusedInOneSentence) {
  const std::pair<std::string, std::string> cases[] = {
      {"exec: {command: p}",
       "users[0].user.exec.apiVersion must be client.authentication.k8s.io/v1 or "
       "client.authentication.k8s.io/v1beta1, is \"\""},
      {"exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: p}", "v1alpha1\""},
      {"exec: {" + kBeta + "args: [a]}", "users[0].user.exec.command is missing"},
      {"exec: {" + kExecV1 + "command: p}",
       "users[0].user.exec.interactiveMode must be Never, IfAvailable or Always, is \"\""},
      {"exec: {" + kBeta + "command: p, interactiveMode: never}", "is \"never\""},
      {"exec: {" + kBeta + "command: p, args: a}", "users[0].user.exec.args must be an array"},
      {"exec: {" + kBeta + "command: p, args: [[a]]}", "exec.args[0] must be a string"},
      {"exec: {" + kBeta + "command: p, env: {a: b}}", "users[0].user.exec.env must be an array"},
      {"exec: {" + kBeta + "command: p, env: [{value: secret}]}",
       "users[0].user.exec.env[0].name must be the name of a variable, is \"\""},
      {"exec: {" + kBeta + "command: p, env: [{name: a=b}]}", "is \"a=b\""},
      {"exec: p", "users[0].user.exec must be a map"},
      {"token: secret, exec: {" + kBeta + "command: p}",
       "users[0].user has both exec and token, and must have one"},
      {"client-key-data: c2VjcmV0, exec: {" + kBeta + "command: p}",
       "both exec and client-key-data"},
  };
  for (const auto& [user, sentence] : cases) {
    EXPECT_THAT(refusal(user), HasSubstr(sentence)) << user;
    EXPECT_THAT(refusal(user), testing::Not(HasSubstr("secret"))) << user;
  }
}

}  // namespace
}  // namespace mgpu::kube
