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
  EXPECT_THAT(complete({""}),
              AllOf(StartsWith("nodes\t"), HasSubstr("\ndoctor\t"), testing::EndsWith("\n:4\n")));
  EXPECT_THAT(complete({"cor"}), AllOf(StartsWith("cordon-card\t"), Not(HasSubstr("uncordon"))));
  EXPECT_EQ(complete({"no-such"}), ":4\n");
}

TEST(Completion, ProposesTheFlagsOfTheCommand) {
  EXPECT_THAT(complete({"pods", "--a"}), StartsWith("--all-namespaces\tthe pods of all"));
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
