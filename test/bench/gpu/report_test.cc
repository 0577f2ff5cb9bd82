#include "bench/gpu/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

// Findings of a check.
std::vector<Json> findings(const std::function<void(Findings&)>& find) {
  std::vector<Json> found;
  Findings into([&](const Json& finding) { found.push_back(finding); },
                Findings::Clock::time_point::max());
  find(into);
  return found;
}

Outcome outcome_of(const std::string& name, Status status, std::vector<Json> found = {}) {
  return {.name = name,
          .question = "Why?",
          .status = status,
          .reason = status == Status::kTimedOut ? "no answer within 30 s" : "",
          .duration = milliseconds(1'500),
          .findings = std::move(found)};
}

TEST(Status, IsPassedWhereEveryExpectationHolds) {
  EXPECT_EQ(status_of({}), Status::kPassed);
  EXPECT_EQ(status_of(findings([](Findings& f) {
              f.fact("reserved", 612, "MiB");
              f.expect("it holds", true, "");
            })),
            Status::kPassed);
}

TEST(Status, IsFailedWhereOneDoesNot) {
  EXPECT_EQ(status_of(findings([](Findings& f) {
              f.expect("it holds", true, "");
              f.expect("this, too", false, "it does not");
            })),
            Status::kFailed);
}

TEST(Table, HasTheFactsAndFailedExpectations) {
  const std::string table =
      table_of(outcome_of("mps-memory", Status::kFailed, findings([](Findings& f) {
                            f.fact("largest", 994, "MiB");
                            f.fact("error", "CUDA_ERROR_OUT_OF_MEMORY");
                            f.expect("limits hold", false, "1,100 MiB");
                            f.expect("errors are named", true, "never printed");
                          })));
  EXPECT_THAT(table, HasSubstr("mps-memory           FAILED       1.5 s  Why?\n"));
  EXPECT_THAT(table, HasSubstr(" 994 MiB\n"));
  EXPECT_THAT(table, HasSubstr(" CUDA_ERROR_OUT_OF_MEMORY\n"));
  EXPECT_THAT(table, HasSubstr("  1 of 2 expectations held\n  failed: limits hold: 1,100 MiB\n"));
  EXPECT_THAT(table, Not(HasSubstr("errors are named")));
}

TEST(Table, SaysWhyACheckWasNotCompleted) {
  EXPECT_THAT(table_of(outcome_of("symbols", Status::kTimedOut)),
              HasSubstr("  no answer within 30 s\n"));
}

TEST(Table, HasNoControlCharacters) {
  const std::string table = table_of(outcome_of("a", Status::kPassed, findings([](Findings& f) {
                                                  f.fact("model", "\x1B]0;title\aH200\x1B[2J");
                                                })));
  EXPECT_THAT(table, HasSubstr("?]0;title?H200?[2J"));
}

TEST(Summary, CountsStatuses) {
  Report report;
  EXPECT_EQ(summary_of(report), "0 passed");
  report.checks = {outcome_of("a", Status::kPassed), outcome_of("b", Status::kPassed),
                   outcome_of("c", Status::kTimedOut), outcome_of("d", Status::kSkipped)};
  EXPECT_EQ(summary_of(report), "2 passed, 1 TIMED OUT, 1 skipped");
}

TEST(Report, PassesWithSkippedChecksAndNoOthers) {
  Report report;
  report.checks = {outcome_of("a", Status::kPassed), outcome_of("b", Status::kSkipped)};
  EXPECT_TRUE(all_passed(report));
  for (const Status status : {Status::kFailed, Status::kError, Status::kTimedOut}) {
    report.checks[1].status = status;
    EXPECT_FALSE(all_passed(report)) << to_string(status);
  }
}

TEST(ReportAsJson, HasFactsAndExpectationsApart) {
  Report report;
  report.date = "2026-11-22T04:00:00Z";
  report.machine.findings = findings([](Findings& f) { f.fact("card", "GPU-a"); });
  report.checks = {outcome_of("a", Status::kFailed, findings([](Findings& f) {
                                f.fact("reserved", 612, "MiB");
                                f.expect("it holds", false, "no");
                              }))};
  const Json json = Json::parse(json_of(report));
  EXPECT_EQ(json["trial"]["date"], "2026-11-22T04:00:00Z");
  EXPECT_EQ(json["machine"]["card"], "GPU-a");
  const Json& check = json["checks"][0];
  EXPECT_EQ(check["status"], "FAILED");
  EXPECT_EQ(check["facts"][0]["unit"], "MiB");
  EXPECT_EQ(check["expectations"][0]["detail"], "no");
  EXPECT_FALSE(check.contains("reason"));
}

// A fact may be any output of a program.
TEST(ReportAsJson, IsValidWhateverAFactHolds) {
  Report report;
  report.checks = {outcome_of("a", Status::kPassed,
                              findings([](Findings& f) { f.fact("text", "\xFF\"\n\x01"); }))};
  EXPECT_TRUE(Json::accept(json_of(report)));
  EXPECT_THAT(table_of(report.checks[0]), HasSubstr("text"));
}

}  // namespace
}  // namespace mgpu::gpu_trial
