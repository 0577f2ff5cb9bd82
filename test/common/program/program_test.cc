#include "common/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "test/support/scratch_folder.h"

namespace mgpu {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Program : public testing::Test {
 protected:
  Program() {
    // run_program() blocks signals in this process, which is undone after each test.
    ::pthread_sigmask(SIG_SETMASK, nullptr, &signals_);
    std::ofstream(kubeconfig_) << "current-context: c\n"
                                  "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
                                  "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
                                  "users: [{name: u, user: {token: t}}]\n";
  }
  ~Program() override { ::pthread_sigmask(SIG_SETMASK, &signals_, nullptr); }

  int run(std::vector<const char*> arguments, Result<void> served = {}) {
    ProgramFlags flags;
    flags.log_level = "error";
    Options options("mgpu-test", "Tests.", "");
    add_api_server_flags(options, flags);
    add_log_flags(options, flags);
    arguments.insert(arguments.begin(), "mgpu-test");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run_program(static_cast<int>(arguments.size()), arguments.data(), "mgpu-test",
                                 options, flags,
                                 {.log_flags = [this] { steps_.push_back("log_flags"); },
                                  .serve =
                                      [&](kube::Transport&, const Connect&) {
                                        steps_.push_back("serve");
                                        return served;
                                      }});
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }

  // Without an API server, and without capturing what is printed.
  static int run_local(const std::function<Result<void>()>& serve) {
    ProgramFlags flags;
    flags.log_level = "error";
    Options options("mgpu-test", "Tests.", "");
    const char* const arguments[] = {"mgpu-test"};
    return run_local_program(1, arguments, "mgpu-test", options, flags, serve);
  }

  int run_with_kubeconfig(Result<void> served) {
    return run({"--kubeconfig", kubeconfig_.c_str()}, std::move(served));
  }

  test::ScratchFolder folder_;
  const std::string kubeconfig_ = folder_.path("config");
  sigset_t signals_{};
  std::vector<std::string> steps_;
  std::string out_;
  std::string err_;
};

TEST_F(Program, ServesAndReturnsZero) {
  EXPECT_EQ(run_with_kubeconfig({}), 0) << err_;
  EXPECT_THAT(steps_, ElementsAre("log_flags", "serve"));
}

TEST_F(Program, PrintsTheErrorOfServe) {
  EXPECT_EQ(run_with_kubeconfig(error("the port is in use")), 1);
  EXPECT_EQ(err_, "mgpu-test: the port is in use\n");
}

// Such as that of a lease which is lost while the program drains.
TEST_F(Program, ARequestDuringTheShutdownChangesNothing) {
  const auto serve = []() -> Result<void> {
    request_shutdown();
    wait_for_shutdown();
    request_shutdown();
    return {};
  };
  EXPECT_EXIT(std::exit(run_local(serve)), testing::ExitedWithCode(0), "");
}

TEST_F(Program, ASecondSignalTerminatesTheProcess) {
  const auto serve = []() -> Result<void> {
    ::kill(::getpid(), SIGTERM);
    wait_for_shutdown();
    ::kill(::getpid(), SIGTERM);
    return {};
  };
  EXPECT_EXIT(std::exit(run_local(serve)), testing::KilledBySignal(SIGTERM), "");
}

TEST_F(Program, NeedsAnApiServer) {
  EXPECT_EQ(run({"--kubeconfig", "/nowhere"}), 1);
  EXPECT_THAT(err_, AllOf(StartsWith("mgpu-test: kubeconfig"), HasSubstr("/nowhere")));
  EXPECT_THAT(steps_, ElementsAre());
}

TEST_F(Program, RefusesAnInvalidFlag) {
  EXPECT_EQ(run({"--log-level=loud"}), 2);
  EXPECT_THAT(err_, HasSubstr("loud"));
  EXPECT_EQ(run({"--no-such-flag"}), 2);
  EXPECT_THAT(steps_, ElementsAre());
}

TEST_F(Program, PrintsHelpOnStandardOutput) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("--kubeconfig"));
  EXPECT_EQ(err_, "");
}

}  // namespace
}  // namespace mgpu
