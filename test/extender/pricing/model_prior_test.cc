#include "extender/pricing/model_prior.h"

#include <gtest/gtest.h>

#include "test/support/price_snapshot_text.h"

namespace mgpu::extender {
namespace {

using test::kinds_of;
using test::node_of;
using test::workload_text;

// The workload with the prior for a cluster of these nodes.
Workload with_prior(const char* workload, const std::vector<Node>& nodes) {
  const Kinds kinds = kinds_of(nodes);
  Workload all = workload_text(workload);
  add_model_prior(kinds, all);
  return all;
}

std::vector<WeightedClass> assumed_for(const Workload& workload, const char* model) {
  std::vector<WeightedClass> found;
  for (const WeightedClass& one : workload.classes)
    if (one.assumed && one.what.models == std::vector<std::string>{model}) found.push_back(one);
  return found;
}

const Node kTwoT4 = node_of("n: 0[100/16 model=T4] 1[100/16 model=T4]");
const Node kOneT4 = node_of("m: 0[100/16 model=T4]");
const Node kA10 = node_of("o: 0[100/24 model=A10]");

TEST(ModelPrior, HasOneWholeCardAndTheLargestNodeOfEachModel) {
  const Workload workload = with_prior("3 x 50/0, 1 x whole on T4", {kOneT4, kTwoT4, kA10});
  ASSERT_EQ(workload.classes.size(), 6U);
  const auto t4 = assumed_for(workload, "T4");
  ASSERT_EQ(t4.size(), 2U);
  EXPECT_EQ(t4[0].what.cards, 1);
  EXPECT_EQ(t4[1].what.cards, 2);
  EXPECT_TRUE(t4[0].what.whole && t4[1].what.whole);
  EXPECT_DOUBLE_EQ(t4[0].probability, kPriorOfOneCard / 2);
  EXPECT_DOUBLE_EQ(t4[1].probability, kPriorOfANode / 2);
  EXPECT_EQ(assumed_for(workload, "A10").at(1).what.cards, 1);
}

TEST(ModelPrior, ProbabilitiesStillSumUpToOne) {
  const Workload workload = with_prior("3 x 50/0, 1 x whole on T4", {kTwoT4, kA10});
  double sum = 0;
  for (const WeightedClass& one : workload.classes) sum += one.probability;
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_DOUBLE_EQ(workload.classes[0].probability / workload.classes[1].probability, 3);
}

TEST(ModelPrior, IgnoresTheSizeAndTheCaseOfModels) {
  const Workload workload =
      with_prior("1 x 50/0", {kTwoT4, node_of("n: 0[100/32 model=t4]"), kA10});
  EXPECT_EQ(workload.classes.size(), 5U);
}

TEST(ModelPrior, SkipsCardsWithoutAModel) {
  EXPECT_EQ(with_prior("1 x 50/0", {kTwoT4, kA10, node_of("n: 0[100/24]")}).classes.size(), 5U);
}

TEST(ModelPrior, IsEmptyWithoutAWorkloadOrWithASingleModel) {
  EXPECT_TRUE(with_prior("", {kTwoT4, kA10}).classes.empty());
  EXPECT_EQ(with_prior("1 x 50/0", {kTwoT4, kOneT4}).classes.size(), 1U);
  EXPECT_EQ(with_prior("1 x 50/0", {}).classes.size(), 1U);
}

}  // namespace
}  // namespace mgpu::extender
