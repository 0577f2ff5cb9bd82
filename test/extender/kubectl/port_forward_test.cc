// kubectl port-forward, with a script in place of kubectl.
#include "extender/kubectl/port_forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <charconv>

#include "test/extender/kubectl/fake_kubectl.h"

namespace mgpu::test {
namespace {

using namespace std::chrono_literals;
using kubectl::forwarded_port;
using kubectl::PortForward;
using testing::HasSubstr;

const kubectl::PortForwardTarget kTarget{.pod = {"kube-system", "mgpu-extender-1"}, .port = 9802};

std::string problem_of(const std::string& script, std::chrono::milliseconds timeout = 20s) {
  const FakeKubectl kubectl(script);
  const auto forward = PortForward::start(kTarget, timeout);
  return forward ? "it was started" : forward.error().message;
}

pid_t pid_in(const std::string& text) {
  pid_t pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  return pid;
}

TEST(ForwardedPort, IsInKubectlsLine) {
  EXPECT_EQ(forwarded_port("Forwarding from 127.0.0.1:40123 -> 9802"), 40123);
  for (const char* line : {"", "Forwarding from [::1]:40123 -> 9802",
                           "Forwarding from 127.0.0.1:", "Forwarding from 127.0.0.1:70000 -> 9802",
                           "Forwarding from 127.0.0.1:-5 -> 9802", "error: 127.0.0.1:40123 -> 9802",
                           "Forwarding from 127.0.0.1:40123"}) {
    EXPECT_EQ(forwarded_port(line), 0) << line;
  }
}

TEST(PortForward, ReadsTheChosenPortAndEndsTheProcess) {
  const FakeKubectl kubectl(
      "echo $$ >$FAKE_KUBECTL/pid; echo \"$@\" >$FAKE_KUBECTL/words\n"
      "echo Forwarding from 127.0.0.1:40123 '->' 9802; exec sleep 600");
  auto forward = PortForward::start({.pod = {"kube-system", "mgpu-extender-1"},
                                     .port = 9802,
                                     .local = 40123,
                                     .flags = {"--kubeconfig=/k c", "--context=c"}},
                                    20s);
  ASSERT_TRUE(forward) << forward.error().message;
  EXPECT_EQ((*forward)->port(), 40123);
  EXPECT_EQ(kubectl.file("words"),
            "port-forward --address=127.0.0.1 --namespace=kube-system --kubeconfig=/k c "
            "--context=c pod/mgpu-extender-1 40123:9802\n");
  const pid_t child = pid_in(kubectl.file("pid"));
  ASSERT_GT(child, 0);
  EXPECT_EQ(::kill(child, 0), 0);
  forward->reset();
  EXPECT_NE(::kill(child, 0), 0);
}

TEST(PortForward, EndsAProcessThatIgnoresSigterm) {
  const FakeKubectl kubectl(
      "trap '' TERM; echo $$ >$FAKE_KUBECTL/pid\n"
      "echo Forwarding from 127.0.0.1:40123 '->' 9802; while :; do sleep 1; done");
  auto forward = PortForward::start(kTarget, 20s);
  ASSERT_TRUE(forward) << forward.error().message;
  const pid_t child = pid_in(kubectl.file("pid"));
  forward->reset();
  EXPECT_NE(::kill(child, 0), 0);
}

TEST(PortForward, SaysWhyKubectlFailed) {
  EXPECT_EQ(problem_of("echo first; echo 'error: pods \"x\" is forbidden\x1b[2J' >&2; exit 1"),
            "kubectl port-forward to pod kube-system/mgpu-extender-1: it has ended: "
            "\"error: pods \"x\" is forbidden\\u001b[2J\"");
  EXPECT_THAT(problem_of("printf 'a%.0s' {1..5000}; exit 1"),
              HasSubstr("\"" + std::string(1024, 'a') + "\""));
  EXPECT_THAT(problem_of("exit 1"), HasSubstr("has ended without output; is kubectl in $PATH?"));
}

TEST(PortForward, NeedsKubectl) {
  const FakeKubectl kubectl("exit 0");
  kubectl.remove();
  const auto forward = PortForward::start(kTarget, 20s);
  ASSERT_FALSE(forward);
  EXPECT_THAT(forward.error().message, HasSubstr("is kubectl in $PATH?"));
}

TEST(PortForward, DoesNotWaitForEver) {
  EXPECT_THAT(problem_of("exec sleep 600", 50ms), HasSubstr("does not listen within 50 ms"));
  EXPECT_THAT(problem_of("while :; do echo noise; done"),
              HasSubstr("its output has over 16384 bytes without a port"));
}

}  // namespace
}  // namespace mgpu::test
