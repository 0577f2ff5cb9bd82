#include "bench/trace/default_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace mgpu::trace {
namespace {

extender::NodeResources amount(std::int64_t milli_cpu, std::int64_t mib) {
  return {extender::MilliCpu(milli_cpu), MiB(mib)};
}

struct Case {
  const char* name;
  NodeCapacity node;
  extender::NodeResources wanted;
  std::int64_t score;
};

class DefaultScore : public testing::TestWithParam<Case> {};

TEST_P(DefaultScore, IsWhatKubeSchedulersFormulasSay) {
  EXPECT_EQ(default_score(GetParam().node, GetParam().wanted), GetParam().score);
}

INSTANTIATE_TEST_SUITE_P(
    Nodes, DefaultScore,
    testing::Values(
        // Least allocated (50 + 50) / 2, and no change of balance: 50 + 50 / 2.
        Case{"half of both", {amount(1000, 1000), amount(1000, 1000)}, amount(500, 500), 50 + 75},
        // (99 + 99) / 2: percentages are truncated, here 99.9.
        Case{"cut", {amount(1000, 1000), amount(1000, 1000)}, amount(1, 1), 99 + 75},
        // (0 + 100) / 2; balance falls from 100 to 50: 50 + (50 - 50) / 2.
        Case{"out of balance", {amount(1000, 1000), amount(1000, 1000)}, amount(1000, 0), 50 + 50},
        // (0 + 0) / 2; balance rises from 50 to 100: 50 + (50 + 50) / 2.
        Case{"in balance again", {amount(1000, 1000), amount(0, 1000)}, amount(0, 1000), 0 + 100},
        Case{"nothing there", {amount(0, 0), amount(0, 0)}, amount(0, 0), 0 + 75}),
    [](const auto& tested) {
      std::string name = tested.param.name;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST(DefaultScore, TheEmptierOfTwoEqualNodesIsBetter) {
  const auto of = [](std::int64_t free) {
    return default_score({amount(64'000, 256'000), amount(free * 64, free * 256)}, amount(64, 256));
  };
  EXPECT_GT(of(1000), of(900));
  EXPECT_GT(of(900), of(100));
}

}  // namespace
}  // namespace mgpu::trace
