// The completion of command lines, and its scripts in the shells that are installed.
#include "extender/kubectl/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "test/extender/kubectl/scripted_cluster.h"

namespace mgpu::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string complete(std::vector<std::string> words) {
  words.insert(words.begin(), std::string(kubectl::kCompleteWord));
  const Ran ran = run(std::move(words));
  EXPECT_EQ(ran.code, 0);
  return ran.out;
}

TEST(Completion, ProposesCommands) {
  EXPECT_THAT(complete({""}), AllOf(StartsWith("overview\t"), HasSubstr("\ndoctor\t"),
                                    testing::EndsWith("\n:4\n")));
  EXPECT_THAT(complete({"cor"}), AllOf(StartsWith("cordon-card\t"), Not(HasSubstr("uncordon"))));
  EXPECT_EQ(complete({"no-such"}), ":4\n");
}

TEST(Completion, ProposesTheFlagsOfTheCommand) {
  EXPECT_THAT(complete({"pods", "--a"}), StartsWith("--all-namespaces\tShow the pods of all"));
  EXPECT_EQ(complete({"nodes", "--all"}), ":4\n");
}

TEST(Completion, ProposesTheValuesOfAFlag) {
  EXPECT_THAT(complete({"pods", "-o", "w"}), StartsWith("wide\t"));
  EXPECT_THAT(complete({"pods", "-A", "--output", ""}), StartsWith("table\t"));
  EXPECT_THAT(complete({"doctor", "--output=j"}), StartsWith("--output=json\t"));
  EXPECT_EQ(complete({"pods", "-n", ""}), ":4\n");
}

TEST(Completion, LetsTheShellProposeFiles) {
  EXPECT_EQ(complete({"simulate", "-f", ""}), ":0\n");
  EXPECT_EQ(complete({"nodes", "--kubeconfig", "x"}), ":0\n");
  EXPECT_EQ(complete({"waste", "--prometheus-ca", ""}), ":0\n");
  EXPECT_EQ(complete({"waste", "--prometheus-token-file", ""}), ":0\n");
}

TEST(Completion, ProposesShells) {
  EXPECT_EQ(complete({"completion", "b"}), "bash\t\n:4\n");
  EXPECT_EQ(run({"completion", "tcsh"}).err,
            "kubectl mgpu: SHELL must be bash, zsh, fish or kubectl, found \"tcsh\"; see --help\n");
}

TEST(Completion, AnyWordsAreOneAnswer) {
  for (const char* word : {"", "-", "--", "=", "--=", "--output=", "\x1b", "-o=", "--url=a=b"}) {
    EXPECT_THAT(complete({word}), testing::EndsWith(":4\n"));
    EXPECT_THAT(complete({"nodes", word}), testing::EndsWith(":4\n"));
    EXPECT_THAT(complete({"nodes", word, word}), testing::EndsWith(":4\n"));
  }
}

// Names of objects, from an API server.
class CompletionOfNames : public testing::Test {
 protected:
  static std::string node(const std::string& name, const std::string& annotation) {
    return R"({"metadata": {"name": ")" + name + R"(", "annotations": {)" + annotation + "}}}";
  }
  static std::string pod(const std::string& name, const std::string& limits) {
    return R"({"metadata": {"name": ")" + name + R"(", "namespace": "a", "uid": "u-)" + name +
           R"("}, "spec": {"containers": [{"name": "c", "resources": {"limits": {)" + limits +
           R"(}, "requests": {)" + limits + R"(}}}]}, "status": {"phase": "Pending"}})";
  }
  // Completes the last of the words, with the kubeconfig of the cluster.
  std::string with_cluster(std::vector<std::string> words) {
    words.insert(words.begin() + 1, {"--kubeconfig", cluster_.folder.path("config")});
    return complete(std::move(words));
  }

  const std::string share_ = R"("vke.volcengine.com/mgpu-core": "30")";
  const std::string cards_ =
      R"("vke.volcengine.com/mgpu-cards": "{\"version\": 1, \"cards\": [)"
      R"({\"index\": 0, \"uuid\": \"GPU-0\", \"model\": \"T4\", \"memoryMiB\": 15360, \"health\": \"Healthy\"},)"
      R"({\"index\": 2, \"uuid\": \"GPU-2\", \"model\": \"T4\", \"memoryMiB\": 15360, \"health\": \"Healthy\"}]}")";
  ScriptedCluster cluster_;
};

TEST_F(CompletionOfNames, ProposesPodsThatRequestCards) {
  cluster_.api.set("/api/v1/namespaces/a/pods",
                   list_of(pod("train-1", share_) + "," + pod("train-2", share_) + "," +
                           pod("web", R"("cpu": "1")")));
  EXPECT_EQ(with_cluster({"explain", "-n", "a", ""}), "train-1\t\ntrain-2\t\n:4\n");
  EXPECT_EQ(with_cluster({"explain", "--namespace=a", "train-2"}), "train-2\t\n:4\n");
  EXPECT_EQ(with_cluster({"pods", "-n", "a", "train-1", "t"}), "train-2\t\n:4\n");
  EXPECT_EQ(with_cluster({"explain", "-n", "a", "train-1", ""}), ":4\n") << "it takes one pod";
}

TEST_F(CompletionOfNames, UsesTheNamespaceOfTheContext) {
  cluster_.write_config(", namespace: a");
  cluster_.api.set("/api/v1/namespaces/a/pods", list_of(pod("train-1", share_)));
  EXPECT_EQ(with_cluster({"top", ""}), "train-1\t\n:4\n");
}

TEST_F(CompletionOfNames, ProposesNodesWithCardsAndTheirIndices) {
  cluster_.api.set("/api/v1/nodes", list_of(node("gpu-1", cards_) + "," + node("cpu-1", "")));
  cluster_.api.set("/api/v1/nodes/gpu-1", node("gpu-1", cards_));
  EXPECT_EQ(with_cluster({"cards", ""}), "gpu-1\t\n:4\n");
  EXPECT_EQ(with_cluster({"cordon-card", "g"}), "gpu-1\t\n:4\n");
  EXPECT_EQ(with_cluster({"cordon-card", "gpu-1", ""}), "0\t\n2\t\n:4\n");
  EXPECT_EQ(with_cluster({"cordon-card", "gpu-1", "0", ""}), ":4\n");
}

TEST_F(CompletionOfNames, ProposesTheNodesOfAFlag) {
  cluster_.api.set("/api/v1/nodes", list_of(node("gpu-1", cards_) + "," + node("cpu-1", "")));
  EXPECT_EQ(with_cluster({"drift", "-l", "app=x", "--node", ""}), "gpu-1\t\n:4\n");
  EXPECT_EQ(with_cluster({"drift", "--node=g"}), "--node=gpu-1\t\n:4\n");
}

TEST_F(CompletionOfNames, ProposesNamespaces) {
  cluster_.api.set("/api/v1/namespaces", list_of(node("research", "") + "," + node("web", "")));
  EXPECT_EQ(with_cluster({"pods", "-n", "r"}), "research\t\n:4\n");
  EXPECT_EQ(with_cluster({"top", "--mgpu-namespace=w"}), "--mgpu-namespace=web\t\n:4\n");
}

TEST_F(CompletionOfNames, AreNoneWithoutAnAnswer) {
  EXPECT_EQ(with_cluster({"explain", "-n", "a", ""}), ":4\n") << "404";
  EXPECT_EQ(with_cluster({"explain", "-n", "../nodes", ""}), ":4\n");
  EXPECT_EQ(with_cluster({"cordon-card", "../pods", ""}), ":4\n");
  EXPECT_EQ(with_cluster({"nodes", "--resource-domain", "/", ""}), ":4\n");
  EXPECT_EQ(complete({"explain", "--kubeconfig", "/no/such/file", ""}), ":4\n");
}

TEST_F(CompletionOfNames, AreLeftOutWhereTheyWouldChangeTheLine) {
  const std::string hostile = R"(x\u001b[2J\u202e\n)";
  cluster_.api.set("/api/v1/nodes", list_of(node(hostile, cards_) + "," + node("gpu-1", cards_)));
  EXPECT_EQ(with_cluster({"nodes", ""}), "gpu-1\t\n:4\n");
}

// The standard output of a shell that has read the script of `completion SHELL`.
class ShellScripts : public testing::Test {
 protected:
  std::string in_shell(const std::string& shell, const std::string& commands) {
    std::ofstream(folder_.path("script")) << run({"completion", shell}).out;
    // In place of the program: prints what it would print for the words.
    std::ofstream(folder_.path("kubectl-mgpu")) << "#!/bin/bash\n[[ \"$*\" == '__complete pods -o "
                                                   "' ]] && printf 'wide\\tx\\nyaml\\tx\\n:4\\n'\n";
    std::filesystem::permissions(folder_.path("kubectl-mgpu"), std::filesystem::perms::owner_all);
    std::ofstream(folder_.path("commands")) << commands;
    const std::string line =
        "cd " + folder_.path() + " && PATH=.:$PATH HOME=. " + shell + " commands 2>&1";
    FILE* const pipe = ::popen(line.c_str(), "r");
    std::string out;
    std::array<char, 4096> part{};
    while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr)
      out += part.data();
    ::pclose(pipe);
    return out;
  }

  ScratchFolder folder_;
};

TEST_F(ShellScripts, BashCompletes) {
  EXPECT_EQ(in_shell("bash",
                     "source ./script\nCOMP_WORDS=(kubectl-mgpu pods -o '')\nCOMP_CWORD=3\n"
                     "_kubectl_mgpu\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"),
            "wide\nyaml\n");
}

TEST_F(ShellScripts, FishCompletes) {
  EXPECT_EQ(in_shell("fish", "source ./script\ncomplete -C 'kubectl-mgpu pods -o '\n"),
            "wide\tx\nyaml\tx\n");
}

// _describe needs a terminal, and is replaced by one that prints.
TEST_F(ShellScripts, ZshCompletes) {
  EXPECT_EQ(in_shell("zsh",
                     "_describe() { print -l -- ${(P)2} }\nwords=(kubectl-mgpu pods -o '')\n"
                     "CURRENT=4\nsource ./script\n_kubectl_mgpu\n"),
            "wide:x\nyaml:x\n");
}

TEST_F(ShellScripts, KubectlCompletes) {
  std::ofstream(folder_.path("copy")) << run({"completion", "kubectl"}).out;
  EXPECT_EQ(in_shell("bash", "sh ./copy pods -o ''\n"), "wide\tx\nyaml\tx\n:4\n");
}

}  // namespace
}  // namespace mgpu::test
