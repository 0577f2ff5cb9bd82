#include "extender/kubectl/waste/plugin_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/utc_text.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/output.h"

namespace mgpu::kubectl {
namespace {

using testing::DoubleEq;
using testing::HasSubstr;
using testing::Optional;
using testing::SizeIs;

constexpr const char* kAccount = R"({"node": "gpu-1", "since": "2026-01-01T10:00:00Z",
  "now": "2026-01-02T10:00:00Z", "items": [
  {"namespace": "a", "pod": "p", "container": "c", "ownerKind": "Deployment", "owner": "web",
   "card": 0, "uuid": "GPU-0", "corePercent": 30, "memoryMiB": 4096, "running": true,
   "from": "2026-01-01T10:00:00Z", "to": "2026-01-02T10:00:00Z", "cardSecondsGranted": 7200,
   "cardSecondsUsed": 1800, "secondsMeasured": 24000, "memoryMiBPeak": 1800,
   "corePercentP95": 17, "samples": 4800},
  {"namespace": "a", "pod": "q", "container": "c", "card": 1, "uuid": "GPU-1", "corePercent": 100,
   "memoryMiB": 40960, "running": false, "from": "2026-01-01T10:00:00Z",
   "to": "2026-01-01T11:00:00Z", "cardSecondsGranted": 3600, "secondsMeasured": 0, "samples": 0}],
  "leftOut": 2})";

TEST(PluginUse, ReadsSecondsAsHours) {
  UseFacts facts;
  ASSERT_TRUE(add_account(kAccount, facts));
  ASSERT_THAT(facts.shares, SizeIs(2));
  const MeasuredShare& share = facts.shares[0];
  EXPECT_EQ(to_string(share.pod), "a/p");
  EXPECT_EQ(share.owner_kind, "Deployment");
  EXPECT_EQ(share.owner, "web");
  EXPECT_EQ(share.core, 30);
  EXPECT_EQ(share.memory, 4'096);
  EXPECT_DOUBLE_EQ(share.granted_hours, 2);
  EXPECT_THAT(share.used_hours, Optional(DoubleEq(0.5)));
  EXPECT_THAT(share.core_p95, Optional(DoubleEq(17)));
  EXPECT_THAT(share.memory_peak, Optional(DoubleEq(1'800)));
  EXPECT_EQ(share.samples, 4'800);
  EXPECT_EQ(utc_text(share.since.value()), "2026-01-01T10:00:00Z");
}

TEST(PluginUse, WhatIsAbsentIsNotKnown) {
  UseFacts facts;
  ASSERT_TRUE(add_account(kAccount, facts));
  const MeasuredShare& share = facts.shares[1];
  EXPECT_EQ(share.owner, "");
  EXPECT_EQ(share.used_hours, std::nullopt);
  EXPECT_EQ(share.core_p95, std::nullopt);
  EXPECT_EQ(share.memory_peak, std::nullopt);
}

TEST(PluginUse, HasTheTimesOfAllAccounts) {
  UseFacts facts;
  ASSERT_TRUE(add_account(kAccount, facts));
  ASSERT_TRUE(add_account(R"({"since": "2026-01-01T12:00:00Z", "now": "2026-01-02T10:00:05Z",
                              "items": [], "leftOut": 3})",
                          facts));
  EXPECT_EQ(facts.accounts, 2);
  EXPECT_EQ(utc_text(*facts.since), "2026-01-01T10:00:00Z");
  EXPECT_EQ(utc_text(*facts.since_newest), "2026-01-01T12:00:00Z");
  EXPECT_EQ(utc_text(*facts.until), "2026-01-02T10:00:05Z");
  EXPECT_EQ(facts.left_out, 5);
}

TEST(PluginUse, NamesAnAnswerThatCannotBeRead) {
  for (const char* answer :
       {"[]", "<html>", "{}", R"({"since": 7, "items": []})", R"({"since": "x", "items": 7})",
        R"({"since": "x", "items": [{}]})", R"({"since": "x", "items": [], "leftOut": "x"})"}) {
    UseFacts facts;
    const auto read = add_account(answer, facts);
    ASSERT_FALSE(read) << answer;
    EXPECT_THAT(read.error().message, HasSubstr("of the device plugin")) << answer;
    EXPECT_EQ(facts.accounts, 0);
  }
}

TEST(PluginUse, NumbersThatAreNoAmountsAreNotKnown) {
  UseFacts facts;
  ASSERT_TRUE(add_account(R"({"since": "2026-01-01T10:00:00Z", "items": [{"namespace": "a",
      "pod": "p", "container": "c", "uuid": "GPU-0", "corePercent": -1, "memoryMiB": 1e300,
      "cardSecondsGranted": -5, "cardSecondsUsed": 1e99, "samples": 1e40}]})",
                          facts));
  EXPECT_EQ(facts.shares[0].core, 0);
  EXPECT_EQ(facts.shares[0].memory, 0);
  EXPECT_EQ(facts.shares[0].granted_hours, 0);
  EXPECT_EQ(facts.shares[0].used_hours, std::nullopt);
  EXPECT_EQ(facts.shares[0].samples, 0);
}

// An account of two hours with an item of a 30 % share.
std::string account_with(const std::string& numbers) {
  return R"({"since": "2026-01-01T10:00:00Z", "now": "2026-01-01T12:00:00Z", "items": [
      {"namespace": "victim", "pod": "p", "container": "c", "uuid": "GPU-0", "corePercent": 30, )" +
         numbers + "}]}";
}

TEST(PluginUse, RefusesMoreThanTheTimeOfTheAccount) {
  for (const char* numbers :
       {R"("cardSecondsGranted": 2400)", R"("cardSecondsGranted": 2000, "cardSecondsUsed": 8000)",
        R"("cardSecondsGranted": 2000, "secondsMeasured": 8000)"}) {
    UseFacts facts;
    ASSERT_TRUE(add_account(account_with(numbers), facts));
    EXPECT_THAT(facts.shares, SizeIs(0)) << numbers;
    ASSERT_THAT(facts.problems, SizeIs(1)) << numbers;
    EXPECT_THAT(facts.problems[0],
                HasSubstr("victim/p was granted or used more than 7200 seconds allow"));
  }
}

TEST(PluginUse, AcceptsWhatTheTimeOfTheAccountAllows) {
  UseFacts facts;
  // Clocks and the ends of samples differ a little.
  ASSERT_TRUE(add_account(account_with(R"("cardSecondsGranted": 2165, "cardSecondsUsed": 7200,
                                          "secondsMeasured": 7205)"),
                          facts));
  EXPECT_THAT(facts.shares, SizeIs(1));
  EXPECT_THAT(facts.problems, SizeIs(0));
}

TEST(PluginUse, WithoutATimeRefusesWhatIsGranted) {
  UseFacts facts;
  ASSERT_TRUE(add_account(R"({"since": "x", "items": [{"namespace": "a", "pod": "p",
      "container": "c", "uuid": "GPU-0", "corePercent": 30, "cardSecondsGranted": 100000},
      {"namespace": "a", "pod": "q", "container": "c", "uuid": "GPU-0", "corePercent": 30,
      "cardSecondsGranted": 100000}]})",
                          facts));
  EXPECT_THAT(facts.shares, SizeIs(0));
  EXPECT_THAT(facts.problems, SizeIs(1)) << "one sentence for all items of an account";
}

TEST(PluginUse, HasAtMostSoManyShares) {
  Json answer = {{"since", "2026-01-01T10:00:00Z"}, {"items", Json::array()}};
  for (std::size_t i = 0; i <= kUseItemsMax; ++i) {
    answer["items"].push_back(
        {{"namespace", "a"}, {"pod", "p"}, {"container", "c"}, {"uuid", "GPU-0"}});
  }
  UseFacts facts;
  ASSERT_TRUE(add_account(answer.dump(), facts));
  EXPECT_THAT(facts.shares, SizeIs(kUseItemsMax));
  EXPECT_EQ(facts.left_out, 1);
}

}  // namespace
}  // namespace mgpu::kubectl
