#include "bench/gpu/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// Long enough for a busy machine. The tests are much shorter.
constexpr seconds kTimeout{60};

Command shell(const std::string& script) {
  return {.path = "/bin/sh", .arguments = {"-c", script}, .environment = {}};
}

std::string failure_of(const std::string& script) {
  const auto program = run_to_end(shell(script), kTimeout);
  return program ? "none" : program.error().message;
}

TEST(RunningProgram, HasTheValuesThatWerePrinted) {
  const auto program = run_to_end(shell("echo a=1; echo two words; echo b=; echo a=2.5"), kTimeout);
  ASSERT_TRUE(program);
  EXPECT_EQ(program->value("a"), "2.5");
  EXPECT_EQ(program->number("a"), 2.5);
  EXPECT_EQ(program->value("b"), "");
  EXPECT_EQ(program->number("b"), std::nullopt);
  EXPECT_EQ(program->value("c"), "");
  EXPECT_EQ(program->text(), "two words\n");
}

TEST(RunningProgram, WaitsForTheNextOfEqualValues) {
  auto program = RunningProgram::start(shell("echo a=1; read line; echo a=1"));
  ASSERT_TRUE(program);
  EXPECT_TRUE(program->next("a", kTimeout));
  EXPECT_FALSE(program->next("a", milliseconds(1)));
  program->send_line();
  EXPECT_TRUE(program->next("a", kTimeout));
}

TEST(RunningProgram, ReportsWhyItFailed) {
  const std::pair<const char*, const char*> cases[] = {
      {"echo failed=cuInit; echo error=CUDA_ERROR_NO_DEVICE; exit 1",
       "cuInit: CUDA_ERROR_NO_DEVICE"},
      {"echo a=1; echo first >&2; echo second >&2; exit 1", "\"second\""},
      {"echo 'time=\"12:00\" level=error msg=\"no cgroup\"'; exit 1", "no cgroup"},
      {"echo a=1; exit 7", "exit code 7"},
      {"echo a=1; kill -SEGV $$", "signal 11"},
  };
  for (const auto& [script, failure] : cases) {
    EXPECT_THAT(failure_of(script), HasSubstr(failure)) << script;
  }
}

TEST(RunningProgram, ReportsAnEndWithoutAValue) {
  auto program = RunningProgram::start(shell("exit 3"));
  ASSERT_TRUE(program);
  const auto value = program->next("a", kTimeout);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().message, "exit code 3");
}

TEST(RunningProgram, ReportsAMissingProgram) {
  const auto program =
      run_to_end({.path = "/nonexistent", .arguments = {}, .environment = {}}, kTimeout);
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, HasSubstr("cannot start /nonexistent"));
}

TEST(RunningProgram, IsKilledIfItDoesNotEnd) {
  auto program = RunningProgram::start(shell("trap '' TERM HUP; while :; do sleep 1; done"));
  ASSERT_TRUE(program);
  const auto code = program->finish(milliseconds(1));
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message, HasSubstr("it did not end within"));
  EXPECT_FALSE(program->is_alive());
}

// Endless output must not use much memory.
TEST(RunningProgram, KeepsLittleOfWhatIsPrinted) {
  const auto program =
      run_to_end(shell("head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; yes | head -n 100000; "
                       "echo a=1"),
                 kTimeout);
  ASSERT_TRUE(program);
  EXPECT_LE(program->text().size(), 64u << 10);
  EXPECT_EQ(program->value("a"), "1");
}

TEST(RunningProgram, GetsItsEnvironmentInPlaceOfOurs) {
  ::setenv("MGPU_TEST_VARIABLE", "ours", 1);
  Command command = shell("echo value=$MGPU_TEST_VARIABLE");
  command.environment = {{"MGPU_TEST_VARIABLE", "its"}};
  EXPECT_EQ(run_to_end(command, kTimeout)->value("value"), "its");
  ::unsetenv("MGPU_TEST_VARIABLE");
}

}  // namespace
}  // namespace mgpu::gpu_trial
