#include "bench/trace/turnover_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mgpu::trace {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using Json = nlohmann::json;

TurnoverResult turnover_with(std::uint64_t seed, double allocation) {
  return {.seed = seed,
          .allocation = allocation,
          .rejected_gpus = 4,
          .rejected_pods = 1,
          .overcommitted = 0,
          .us_per_decision = 12.5,
          .decisions = 7,
          .failures = {{"8", 1, 8}}};
}

TurnoverReport report() {
  return {.heading = {.trace = "default",
                      .policy = "fgd",
                      .workload = "known",
                      .ties = "first",
                      .non_gpu = "extender",
                      .memory = "none",
                      .nodes = 1213,
                      .cards = 6212},
          .load = 110,
          .seeds = {turnover_with(1, 94), turnover_with(2, 96)}};
}

TEST(TurnoverJson, HasEverySeedMeanAndDeviation) {
  const Json json = Json::parse(turnover_json(report()));
  EXPECT_EQ(json["trace"], "default");
  EXPECT_EQ(json["cards"], 6212);
  EXPECT_EQ(json["load"], 110);
  ASSERT_EQ(json["seeds"].size(), 2U);
  EXPECT_EQ(json["seeds"][1], Json::parse(R"({"seed": 2, "allocation": 96.0, "rejected_gpus": 4.0,
      "rejected_pods": 1.0, "overcommitted": 0, "us_per_decision": 12.5, "decisions": 7,
      "failures": [{"size": "8", "pods": 1, "gpus": 8.0}]})"));
  EXPECT_DOUBLE_EQ(json["mean"]["allocation"], 95);
  EXPECT_NEAR(json["deviation"]["allocation"], 1.41421356, 1e-8);
  EXPECT_DOUBLE_EQ(json["mean"]["rejected_gpus"], 4);
  EXPECT_DOUBLE_EQ(json["deviation"]["rejected_pods"], 0);
}

TEST(TurnoverTable, HasALineForEverySeedAndTheMean) {
  const std::string text = turnover_table(report());
  EXPECT_THAT(text, HasSubstr("the offered load is 110 percent"));
  EXPECT_THAT(text, HasSubstr("     1          94.00           4.00           1.00"));
  EXPECT_THAT(text, HasSubstr("  mean          95.00           4.00           1.00"));
  EXPECT_THAT(text, EndsWith("  s.d.           1.41           0.00           0.00\n"));
}

}  // namespace
}  // namespace mgpu::trace
