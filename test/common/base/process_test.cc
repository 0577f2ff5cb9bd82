#include "common/base/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "test/support/scratch_folder.h"

namespace mgpu {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::seconds kLong{60};
constexpr std::size_t kMuch = 100'000;

// Runs a script of the shell.
Result<ProgramResult> run_script(const std::string& script, std::vector<std::string> variables = {},
                                 std::size_t bytes_max = kMuch,
                                 std::chrono::milliseconds timeout = kLong) {
  const std::atomic<bool> cancelled = false;
  return run_for_output({.path = "/bin/sh",
                         .arguments = {"-c", script},
                         .variables = std::move(variables),
                         .in = STDIN_FILENO},
                        bytes_max, timeout, cancelled);
}

std::string error_of(const Result<ProgramResult>& result) {
  return result ? "no error" : result.error().message;
}

TEST(RunForOutput, SeparatesTheOutputs) {
  const auto result = run_script("echo one; echo two >&2; echo three");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->out, "one\nthree\n");
  EXPECT_EQ(result->err, "two\n");
  EXPECT_EQ(result->exit, "");
}

TEST(RunForOutput, SaysHowTheProgramEnded) {
  EXPECT_EQ(run_script("echo why >&2; exit 3")->exit, "exit code 3");
  EXPECT_EQ(run_script("echo why >&2; exit 3")->err, "why\n");
  EXPECT_EQ(run_script("kill -TERM $$")->exit, "signal 15");
}

TEST(RunForOutput, ReadsMoreThanASocketHolds) {
  const auto result =
      run_script("i=0; while [ $i -lt 5000 ]; do echo 0123456789; i=$((i+1)); done");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->out.size(), 55'000U);
}

TEST(RunForOutput, EndsAProgramThatPrintsTooMuch) {
  EXPECT_EQ(error_of(run_script("while true; do echo 0123456789; done", {}, 1000)),
            "its output has over 1000 bytes");
  EXPECT_EQ(error_of(run_script("while true; do echo 0123456789 >&2; done", {}, 1000)),
            "its output has over 1000 bytes");
  EXPECT_EQ(error_of(run_script("echo 0123456789", {}, 10)), "its output has over 10 bytes");
}

TEST(RunForOutput, EndsAProgramThatTakesTooLong) {
  EXPECT_EQ(error_of(run_script("sleep 1000", {}, kMuch, 50ms)), "it does not end in time");
}

TEST(RunForOutput, EndsAProgramWhenItIsCancelled) {
  std::atomic<bool> cancelled = false;
  std::thread canceller([&] { cancelled = true; });
  const auto result = run_for_output(
      {.path = "/bin/sh", .arguments = {"-c", "sleep 1000"}, .variables = {}, .in = STDIN_FILENO},
      kMuch, kLong, cancelled);
  canceller.join();
  EXPECT_EQ(error_of(result), "it was cancelled");
}

TEST(RunForOutput, DoesNotWaitForAnotherProcessThatHasTheOutput) {
  const auto result = run_script("sleep 1000 & echo $!");
  ASSERT_TRUE(result) << result.error().message;
  const pid_t other = std::atoi(result->out.c_str());
  ASSERT_GT(other, 1);
  ::kill(other, SIGKILL);
}

TEST(RunForOutput, ReplacesAndRemovesVariables) {
  ::setenv("PROCESS_TEST_KEPT", "a", 1);
  ::setenv("PROCESS_TEST_SET", "b", 1);
  ::setenv("REMOVED_TEST", "c", 1);
  const std::atomic<bool> cancelled = false;
  const auto result = run_for_output({.path = "env",
                                      .arguments = {},
                                      .variables = {"PROCESS_TEST_SET=new"},
                                      .in = STDIN_FILENO,
                                      .removed_prefix = "REMOVED_"},
                                     kMuch, kLong, cancelled);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(result->out, HasSubstr("PROCESS_TEST_KEPT=a\n"));
  EXPECT_THAT(result->out, HasSubstr("PROCESS_TEST_SET=new\n"));
  EXPECT_THAT(result->out, Not(HasSubstr("PROCESS_TEST_SET=b")));
  EXPECT_THAT(result->out, Not(HasSubstr("REMOVED_TEST")));
}

// uvm_module_test.cc and flags_test.cc run programs in another root.
TEST(RunForOutput, DoesNotSearchAProgramOutsideOfItsRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "chroot needs root";
  const std::atomic<bool> cancelled = false;
  const test::ScratchFolder folder;
  const auto result = run_for_output({.path = "/bin/sh",
                                      .arguments = {},
                                      .variables = {},
                                      .in = STDIN_FILENO,
                                      .root = folder.path()},
                                     kMuch, kLong, cancelled);
  EXPECT_EQ(error_of(result),
            "cannot start /bin/sh with the root " + folder.path() + ": No such file or directory");
}

TEST(RunForOutput, SaysThatTheRootDoesNotExist) {
  if (::geteuid() != 0) GTEST_SKIP() << "chroot needs root";
  const std::atomic<bool> cancelled = false;
  const auto result = run_for_output({.path = "/bin/sh",
                                      .arguments = {},
                                      .variables = {},
                                      .in = STDIN_FILENO,
                                      .root = "/no-such-folder"},
                                     kMuch, kLong, cancelled);
  EXPECT_EQ(
      error_of(result),
      "cannot start /bin/sh with the root /no-such-folder: chroot: No such file or directory");
}

TEST(RunForOutput, SaysThatAProgramDoesNotExist) {
  const std::atomic<bool> cancelled = false;
  const auto result = run_for_output(
      {.path = "no-such-program", .arguments = {}, .variables = {}, .in = STDIN_FILENO}, kMuch,
      kLong, cancelled);
  EXPECT_EQ(error_of(result), "cannot start no-such-program: No such file or directory");
}

}  // namespace
}  // namespace mgpu
