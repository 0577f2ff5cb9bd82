#include "bench/trace/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace mgpu::trace {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using Json = nlohmann::json;

// 12.5 us for each of 8 decisions.
constexpr DecisionStats kStats{
    .decisions = 8, .unplaced = 2, .took = std::chrono::microseconds(100)};

SeedResult seed_with(std::uint64_t seed, double allocation, std::int64_t until = 130) {
  SeedResult result;
  result.seed = seed;
  for (std::int64_t arrived = 0; arrived <= until; ++arrived)
    result.curve.push_back({.arrived = arrived,
                            .allocation = allocation + static_cast<double>(arrived) / 1000,
                            .fragmentation_amount = 4,
                            .fragmentation_rate = 80});
  result.stats = kStats;
  return result;
}

const Heading kHeading = {.trace = "default",
                          .policy = "fgd",
                          .workload = "known",
                          .ties = "first",
                          .non_gpu = "extender",
                          .memory = "none",
                          .nodes = 1213,
                          .cards = 6212};

Report of_seeds(const std::vector<SeedResult>& seeds) {
  return report_of(kHeading, seeds);
}

TEST(ReportJson, SaysWhatWasRun) {
  const Json json = Json::parse(report_json(of_seeds({})));
  EXPECT_EQ(json["trace"], "default");
  EXPECT_EQ(json["policy"], "fgd");
  EXPECT_EQ(json["workload"], "known");
  EXPECT_EQ(json["ties"], "first");
  EXPECT_EQ(json["memory"], "none");
  EXPECT_EQ(json["nodes"], 1213);
  EXPECT_EQ(json["cards"], 6212);
}

TEST(ReportJson, HasEverySeedWithItsCurve) {
  const Json json = Json::parse(report_json(of_seeds({seed_with(42, 90), seed_with(43, 92)})));
  ASSERT_EQ(json["seeds"].size(), 2U);
  const Json& seed = json["seeds"][1];
  EXPECT_EQ(seed["seed"], 43);
  EXPECT_DOUBLE_EQ(seed["at95"], 92.095);
  EXPECT_DOUBLE_EQ(seed["at100"], 92.1);
  EXPECT_DOUBLE_EQ(seed["at130"], 92.13);
  EXPECT_EQ(seed["overcommitted"], 0);
  EXPECT_EQ(seed["us_per_decision"], 12.5);
  EXPECT_EQ(seed["decisions"], 8);
  EXPECT_EQ(seed["unplaced"], 2);
  ASSERT_EQ(seed["curve"].size(), 131U);
  EXPECT_EQ(seed["curve"][100]["arrived"], 100);
  EXPECT_DOUBLE_EQ(seed["curve"][100]["allocation"], 92.1);
  EXPECT_EQ(seed["curve"][100]["fragmentation_amount"], 4);
  EXPECT_EQ(seed["curve"][100]["fragmentation_rate"], 80);
}

TEST(ReportJson, HasMeanAndSampleDeviation) {
  const Json json =
      Json::parse(report_json(of_seeds({seed_with(1, 90), seed_with(2, 92), seed_with(3, 94)})));
  EXPECT_NEAR(json["mean"]["at100"], 92.1, 1e-9);
  EXPECT_NEAR(json["deviation"]["at100"], 2, 1e-9);
  EXPECT_NEAR(json["mean"]["at95"], 92.095, 1e-9);
}

TEST(ReportJson, HasNoDeviationOfOneSeed) {
  const Json json = Json::parse(report_json(of_seeds({seed_with(1, 90)})));
  EXPECT_EQ(json["deviation"]["at100"], 0);
}

TEST(ReportJson, IsNullWhereARunDoesNotReach) {
  const Json json = Json::parse(report_json(of_seeds({seed_with(1, 90, 99)})));
  EXPECT_TRUE(json["seeds"][0]["at95"].is_number());
  EXPECT_TRUE(json["seeds"][0]["at100"].is_null());
  EXPECT_TRUE(json["mean"]["at130"].is_null());
  EXPECT_TRUE(json["mean"]["at95"].is_number());
}

TEST(ReportTable, HasALineForEverySeedAndTheMean) {
  const std::string text = report_table(of_seeds({seed_with(42, 90), seed_with(43, 92)}));
  EXPECT_THAT(text, HasSubstr("1213 nodes, 6212 cards"));
  EXPECT_THAT(text, HasSubstr("    42           90.09           90.10           90.13"));
  EXPECT_THAT(text, HasSubstr("    43           92.09           92.10           92.13"));
  EXPECT_THAT(text, HasSubstr("  mean           91.09           91.10           91.13"));
  EXPECT_THAT(text, EndsWith("  s.d.            1.41            1.41            1.41\n"));
}

TEST(ReportTable, HasADashWhereARunDoesNotReach) {
  EXPECT_THAT(report_table(of_seeds({seed_with(42, 90, 99)})),
              HasSubstr("    42           90.09               -               -"));
}

TurnoverResult turnover_with(std::uint64_t seed, double allocation) {
  return {.seed = seed,
          .allocation = allocation,
          .rejected_gpus = 4,
          .rejected_pods = 1,
          .overcommitted = 0,
          .stats = kStats};
}

Report turnovers() {
  return report_of(kHeading, 110, {turnover_with(1, 94), turnover_with(2, 96)});
}

TEST(TurnoverJson, HasEverySeedMeanAndDeviation) {
  const Json json = Json::parse(report_json(turnovers()));
  EXPECT_EQ(json["trace"], "default");
  EXPECT_EQ(json["cards"], 6212);
  EXPECT_EQ(json["load"], 110);
  ASSERT_EQ(json["seeds"].size(), 2U);
  EXPECT_EQ(json["seeds"][1], Json::parse(R"({"seed": 2, "allocation": 96.0, "rejected_gpus": 4.0,
      "rejected_pods": 1.0, "overcommitted": 0, "us_per_decision": 12.5, "decisions": 8,
      "unplaced": 2})"));
  EXPECT_DOUBLE_EQ(json["mean"]["allocation"], 95);
  EXPECT_NEAR(json["deviation"]["allocation"], 1.41421356, 1e-8);
  EXPECT_DOUBLE_EQ(json["mean"]["rejected_gpus"], 4);
  EXPECT_DOUBLE_EQ(json["deviation"]["rejected_pods"], 0);
}

TEST(TurnoverTable, HasALineForEverySeedAndTheMean) {
  const std::string text = report_table(turnovers());
  EXPECT_THAT(text, HasSubstr("the offered load is 110 percent"));
  EXPECT_THAT(text, HasSubstr("     1           94.00            4.00            1.00"));
  EXPECT_THAT(text, HasSubstr("  mean           95.00            4.00            1.00"));
  EXPECT_THAT(text, EndsWith("  s.d.            1.41            0.00            0.00\n"));
}

}  // namespace
}  // namespace mgpu::trace
