#include "extender/kubectl/waste/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/kubectl/waste/limits.h"

namespace mgpu::kubectl {
namespace {

using testing::DoubleEq;
using testing::DoubleNear;
using testing::Eq;
using testing::Optional;
using testing::SizeIs;

constexpr std::int64_t kMargin = 20;

// Half of a card for ten hours, of which 10 % of the card was used.
MeasuredShare share_of_pod(const std::string& pod) {
  return {.pod = {"a", pod},
          .container = "app",
          .uuid = "GPU-0",
          .owner_kind = "Deployment",
          .owner = "web",
          .core = 50,
          .memory = 4'096,
          .granted_hours = 5,
          .used_hours = 1,
          .measured_hours = 10,
          .samples = 7'200,
          .memory_peak = 1'000,
          .core_p95 = 17};
}

TEST(WasteRows, SubtractTheUseFromWhatWasGranted) {
  const auto rows = waste_rows({share_of_pod("p")}, WasteBy::kPod, kMargin);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_DOUBLE_EQ(rows[0].wasted_hours, 4);
  EXPECT_THAT(wasted_percent(rows[0]), Optional(DoubleEq(80)));
  EXPECT_EQ(rows[0].owner, "web");
}

TEST(WasteRows, CountTheMeasuredTimeOnly) {
  MeasuredShare share = share_of_pod("p");
  share.measured_hours = 4;
  const auto rows = waste_rows({share}, WasteBy::kPod, kMargin);
  EXPECT_DOUBLE_EQ(rows[0].granted_hours, 5);
  EXPECT_DOUBLE_EQ(rows[0].wasted_hours, 1);
  EXPECT_THAT(wasted_percent(rows[0]), Optional(DoubleEq(50)));
  EXPECT_DOUBLE_EQ(not_measured_hours(rows[0]), 3);
}

TEST(WasteRows, WithoutAnyMeasurementNothingIsKnown) {
  MeasuredShare share = share_of_pod("p");
  share.used_hours.reset();
  share.core_p95.reset();
  share.memory_peak.reset();
  share.measured_hours = 0;
  const auto rows = waste_rows({share}, WasteBy::kPod, kMargin);
  EXPECT_EQ(rows[0].used_hours, std::nullopt);
  EXPECT_DOUBLE_EQ(not_measured_hours(rows[0]), 5);
  EXPECT_EQ(wasted_percent(rows[0]), std::nullopt);
  EXPECT_EQ(rows[0].suggested.core, std::nullopt);
  EXPECT_EQ(rows[0].suggested.memory, std::nullopt);
}

TEST(WasteRows, UseBeyondAShareIsNoNegativeWasteOfAnother) {
  MeasuredShare over = share_of_pod("over");
  over.used_hours = 9;
  const auto rows = waste_rows({share_of_pod("p"), over}, WasteBy::kNamespace, kMargin);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_THAT(rows[0].used_hours, Optional(DoubleEq(10)));
  EXPECT_DOUBLE_EQ(rows[0].wasted_hours, 4);
}

TEST(WasteRows, PutTheContainersOfAnOwnerTogether) {
  MeasuredShare second = share_of_pod("q");
  second.core_p95 = 30;
  second.memory_peak = 900;
  MeasuredShare other = share_of_pod("q");
  other.container = "side";
  const auto rows = waste_rows({share_of_pod("p"), second, other}, WasteBy::kOwner, kMargin);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].shares, 2);
  EXPECT_DOUBLE_EQ(rows[0].granted_hours, 10);
  EXPECT_THAT(rows[0].core_p95, Optional(DoubleEq(30)));
  EXPECT_THAT(rows[0].memory_peak, Optional(DoubleEq(1'000)));
  EXPECT_EQ(rows[1].container, "side");
}

TEST(WasteRows, KeepOwnersOfOneNameApart) {
  MeasuredShare job = share_of_pod("q");
  job.owner_kind = "Job";
  MeasuredShare elsewhere = share_of_pod("p");
  elsewhere.pod.name_space = "b";
  EXPECT_THAT(waste_rows({share_of_pod("p"), job, elsewhere}, WasteBy::kOwner, kMargin), SizeIs(3));
}

TEST(WasteRows, TheMostWasteIsFirst) {
  MeasuredShare little = share_of_pod("a-little");
  little.used_hours = 4.5;
  const auto rows = waste_rows({little, share_of_pod("much")}, WasteBy::kPod, kMargin);
  EXPECT_EQ(rows[0].pod, "much");
}

TEST(WasteRows, SumUp) {
  const WasteRow total =
      waste_total(waste_rows({share_of_pod("p"), share_of_pod("q")}, WasteBy::kPod, kMargin));
  EXPECT_DOUBLE_EQ(total.granted_hours, 10);
  EXPECT_THAT(total.used_hours, Optional(DoubleEq(2)));
  EXPECT_DOUBLE_EQ(total.wasted_hours, 8);
}

// --- suggestions ---------------------------------------------------------------------------------

SuggestedRequest suggested_for(const MeasuredShare& share, std::int64_t margin = kMargin) {
  return waste_rows({share}, WasteBy::kPod, margin).front().suggested;
}

TEST(SuggestedRequest, AddsTheMarginAndRoundsUp) {
  const SuggestedRequest suggested = suggested_for(share_of_pod("p"));
  EXPECT_EQ(suggested.core, 25) << "17 + 20 % are 20.4";
  EXPECT_EQ(suggested.memory, 1'280) << "1000 + 20 % are 1200";
  EXPECT_EQ(suggested_for(share_of_pod("p"), 0).core, 20);
  EXPECT_EQ(suggested_for(share_of_pod("p"), 0).memory, 1'024);
}

TEST(SuggestedRequest, OfAMultipleIsNotTheNextOne) {
  MeasuredShare share = share_of_pod("p");
  share.core_p95 = 25;
  share.memory_peak = 1'280;
  EXPECT_EQ(suggested_for(share).core, 30);
  EXPECT_EQ(suggested_for(share).memory, 1'536);
}

TEST(SuggestedRequest, IsAtLeastOneStepAndAtMostACard) {
  MeasuredShare share = share_of_pod("p");
  share.core_p95 = 0;
  share.memory_peak = 0;
  EXPECT_EQ(suggested_for(share).core, kSuggestCoreStep);
  EXPECT_EQ(suggested_for(share).memory, kSuggestMemoryMin);
  share.memory = 512;
  EXPECT_EQ(suggested_for(share).memory, 512) << "the node takes it";
  share.core_p95 = 99;
  EXPECT_EQ(suggested_for(share).core, 100);
}

TEST(SuggestedRequest, IsNoMoreMemoryThanWasGrantedUnlessMoreWasUsed) {
  MeasuredShare share = share_of_pod("p");
  share.memory = 30'000;
  share.memory_peak = 30'000;
  EXPECT_EQ(suggested_for(share).memory, 30'000);
  share.memory_peak = 29'000;
  EXPECT_EQ(suggested_for(share).memory, 30'000);
  share.memory_peak = 30'001;
  EXPECT_EQ(suggested_for(share).memory, 36'096);
}

TEST(SuggestedRequest, NeedsAnHourAndEnoughSamples) {
  MeasuredShare share = share_of_pod("p");
  share.measured_hours = kSuggestHoursMin;
  share.samples = kSuggestSamplesMin;
  EXPECT_NE(suggested_for(share).core, std::nullopt);
  share.samples = kSuggestSamplesMin - 1;
  EXPECT_EQ(suggested_for(share).core, std::nullopt);
  EXPECT_EQ(suggested_for(share).memory, std::nullopt);
  share.samples = kSuggestSamplesMin;
  share.measured_hours = kSuggestHoursMin - 0.01;
  EXPECT_EQ(suggested_for(share).core, std::nullopt);
}

TEST(SuggestedRequest, HasThePartsThatAreKnown) {
  MeasuredShare share = share_of_pod("p");
  share.core_p95.reset();
  EXPECT_EQ(suggested_for(share).core, std::nullopt);
  EXPECT_EQ(suggested_for(share).memory, 1'280);
}

TEST(SuggestedRequest, IsNotMadeForANamespace) {
  const auto rows = waste_rows({share_of_pod("p")}, WasteBy::kNamespace, kMargin);
  EXPECT_EQ(rows[0].suggested.core, std::nullopt);
}

}  // namespace
}  // namespace mgpu::kubectl
