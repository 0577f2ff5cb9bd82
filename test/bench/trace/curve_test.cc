#include "bench/trace/curve.h"

#include <gtest/gtest.h>

namespace mgpu::trace {
namespace {

// The cluster has 100 cards, so one card is one percent.
Curve curve_of(const std::vector<CurveSample>& samples) {
  Curve curve(100'000);
  for (const CurveSample& sample : samples) curve.add(sample);
  return curve;
}

double allocation_at(const Curve& curve, std::int64_t percent) {
  return curve.points(percent).back().allocation;
}

TEST(Curve, HasAPointForEveryPercent) {
  const auto points = curve_of({{1000, 1000, 0}}).points(130);
  ASSERT_EQ(points.size(), 131U);
  for (std::size_t i = 0; i < points.size(); ++i)
    EXPECT_EQ(points[i].arrived, static_cast<std::int64_t>(i));
}

TEST(Curve, IsTheMeanOverTheArrivalsThatRoundToAPercent) {
  const Curve curve =
      curve_of({{4400, 1000, 0}, {4600, 2000, 0}, {5400, 4000, 0}, {5600, 8000, 0}});
  EXPECT_DOUBLE_EQ(allocation_at(curve, 4), 1);
  EXPECT_DOUBLE_EQ(allocation_at(curve, 5), 3);
  EXPECT_DOUBLE_EQ(allocation_at(curve, 6), 8);
}

TEST(Curve, RoundsHalvesToTheEvenPercent) {
  const Curve curve = curve_of({{4500, 1000, 0}, {5500, 2000, 0}, {6500, 3000, 0}});
  EXPECT_DOUBLE_EQ(allocation_at(curve, 4), 1);
  EXPECT_DOUBLE_EQ(allocation_at(curve, 6), 2.5);
}

TEST(Curve, RoundsEachAllocationToTwoDecimalsFirst) {
  Curve curve(3'000'000);
  curve.add({.arrived_milli = 30'000, .allocated_milli = 10'000, .fragmentation_milli = 0});
  EXPECT_DOUBLE_EQ(allocation_at(curve, 1), 0.33);
}

TEST(Curve, CarriesTheLastValueOverPercentsWithoutArrivals) {
  const Curve curve = curve_of({{9900, 1000, 500}, {10'100, 3000, 900}, {50'000, 9000, 0}});
  EXPECT_DOUBLE_EQ(allocation_at(curve, 9), 0);
  EXPECT_DOUBLE_EQ(allocation_at(curve, 10), 2);
  EXPECT_DOUBLE_EQ(allocation_at(curve, 11), 3);
  EXPECT_DOUBLE_EQ(curve.points(49).back().fragmentation_amount, 0.9);
  EXPECT_DOUBLE_EQ(allocation_at(curve, 130), 9);
}

TEST(Curve, MeasuresFragmentationByAllCardsAndByWhatIsFree) {
  const Curve curve = curve_of({{50'000, 60'000, 10'000}});
  EXPECT_DOUBLE_EQ(curve.points(50).back().fragmentation_amount, 10);
  EXPECT_DOUBLE_EQ(curve.points(50).back().fragmentation_rate, 25);
}

TEST(Curve, HasNoFragmentationRateInAFullCluster) {
  const Curve curve = curve_of({{100'000, 100'000, 0}});
  EXPECT_EQ(curve.points(100).back().fragmentation_rate, 0);
}

}  // namespace
}  // namespace mgpu::trace
