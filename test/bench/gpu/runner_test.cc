#include "bench/gpu/runner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "bench/gpu/trial.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::SizeIs;

// Long enough for a busy machine. The tests are much shorter.
constexpr seconds kLimit{60};

class RunnerTest : public testing::Test {
 protected:
  RunnerTest() : log_(::open("/dev/null", O_WRONLY | O_CLOEXEC)), runner_(log_) {}
  ~RunnerTest() override { ::close(log_); }

  Outcome run(Result<void> (*check)(const Trial&, Findings&), milliseconds limit = kLimit) {
    return runner_.run({"check", "Why?", kLimit, check}, trial_, limit);
  }

  Trial trial_;
  const int log_;
  Runner runner_;
};

[[noreturn]] void sleep_for_ever() {
  while (true) ::pause();
}

TEST_F(RunnerTest, CollectsTheFindingsOfACheck) {
  const Outcome outcome = run([](const Trial&, Findings& findings) -> Result<void> {
    findings.fact("a", 1);
    findings.expect("b", true, "");
    return {};
  });
  EXPECT_EQ(outcome.status, Status::kPassed);
  EXPECT_THAT(outcome.findings, SizeIs(2));
}

TEST_F(RunnerTest, CollectsTheReasonOfASkippedCheck) {
  const Outcome outcome = run([](const Trial&, Findings& findings) -> Result<void> {
    findings.skip("needs root");
    return {};
  });
  EXPECT_EQ(outcome.status, Status::kSkipped);
  EXPECT_EQ(outcome.reason, "needs root");
}

TEST_F(RunnerTest, CollectsTheErrorOfACheck) {
  const Outcome outcome =
      run([](const Trial&, Findings&) -> Result<void> { return error("no MPS here"); });
  EXPECT_EQ(outcome.status, Status::kError);
  EXPECT_EQ(outcome.reason, "no MPS here");
}

TEST_F(RunnerTest, ReportsAnExceptionAsAnError) {
  const Outcome outcome =
      run([](const Trial&, Findings&) -> Result<void> { throw std::runtime_error("bad file"); });
  EXPECT_EQ(outcome.status, Status::kError);
  EXPECT_EQ(outcome.reason, "bad file");
}

TEST_F(RunnerTest, SurvivesACheckThatCrashes) {
  const Outcome outcome = run([](const Trial&, Findings& findings) -> Result<void> {
    findings.fact("before", 1);
    ::signal(SIGABRT, SIG_DFL);
    std::abort();
  });
  EXPECT_EQ(outcome.status, Status::kError);
  EXPECT_THAT(outcome.reason, HasSubstr("signal"));
  EXPECT_THAT(outcome.findings, SizeIs(1));
}

// The library of a driver may end the process.
TEST_F(RunnerTest, ReportsACheckThatEndedEarlyAsAnError) {
  for (const auto check : {+[](const Trial&, Findings&) -> Result<void> { ::_exit(0); },
                           +[](const Trial&, Findings&) -> Result<void> { ::_exit(1); }}) {
    const Outcome outcome = run(check);
    EXPECT_EQ(outcome.status, Status::kError);
    EXPECT_THAT(outcome.reason, HasSubstr("the check ended before its time: exit code"));
  }
}

TEST_F(RunnerTest, EndsACheckThatHangsAndKeepsItsFindings) {
  const Outcome outcome = run(
      [](const Trial&, Findings& findings) -> Result<void> {
        findings.fact("before", 1);
        sleep_for_ever();
      },
      seconds(2));
  EXPECT_EQ(outcome.status, Status::kTimedOut);
  EXPECT_EQ(outcome.reason, "no answer within 2 s");
  EXPECT_THAT(outcome.findings, SizeIs(1));
}

TEST_F(RunnerTest, EndsAProcessThatLeftTheSessionOfItsCheck) {
  const Outcome outcome = run([](const Trial&, Findings& findings) -> Result<void> {
    int ends[2];
    if (::pipe(ends) != 0) return error("no pipe");
    if (::fork() == 0) {
      ::setsid();
      // An orphan, like a daemon.
      const pid_t daemon = ::fork();
      if (daemon == 0) {
        for (const int number : {SIGTERM, SIGHUP, SIGINT}) ::signal(number, SIG_IGN);
        ::close(ends[0]);
        const pid_t self = ::getpid();
        if (::write(ends[1], &self, sizeof self) < 0) ::_exit(1);
        // The pipe of the findings is also open here, so it does not show the end of the check.
        sleep_for_ever();
      }
      ::_exit(0);
    }
    pid_t daemon = 0;
    if (::read(ends[0], &daemon, sizeof daemon) < 0) return error("no daemon");
    findings.fact("daemon", daemon);
    return {};
  });
  EXPECT_EQ(outcome.status, Status::kPassed);
  ASSERT_THAT(outcome.findings, SizeIs(1));
  const pid_t daemon = outcome.findings[0]["value"];
  EXPECT_NE(::kill(daemon, 0), 0);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(RunnerTest, KeepsTheLastOfFactsWithTheSameName) {
  const Outcome outcome = run([](const Trial&, Findings& findings) -> Result<void> {
    for (int i = 1; i <= 3; ++i) findings.fact("done", i);
    findings.fact("other", 0);
    return {};
  });
  ASSERT_THAT(outcome.findings, SizeIs(2));
  EXPECT_EQ(outcome.findings[0]["value"], 3);
}

TEST_F(RunnerTest, EndsACheckWithTooManyFindings) {
  const Outcome outcome = run([](const Trial&, Findings& findings) -> Result<void> {
    for (int i = 0; i < 3; ++i) findings.fact(std::to_string(i), std::string(1 << 20, 'x'));
    return {};
  });
  EXPECT_EQ(outcome.status, Status::kError);
  EXPECT_THAT(outcome.reason, HasSubstr("it found more than"));
}

TEST_F(RunnerTest, GivesACheckItsRemainingTime) {
  const Outcome outcome = run([](const Trial&, Findings& findings) -> Result<void> {
    findings.expect("some is left", findings.time_left() > seconds(0), "none");
    findings.expect("not more than there is", findings.time_left() <= kLimit, "more");
    return {};
  });
  EXPECT_EQ(outcome.status, Status::kPassed);
}

TEST_F(RunnerTest, LeavesNoChild) {
  const Outcome outcome = run([](const Trial&, Findings&) -> Result<void> {
    for (int i = 0; i < 5; ++i) {
      if (::fork() == 0) sleep_for_ever();
    }
    return {};
  });
  EXPECT_EQ(outcome.status, Status::kPassed);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace mgpu::gpu_trial
