#include "extender/pricing/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "extender/pricing/limits.h"
#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

using test::request_of;
using test::share_of;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

NodeResources resources_of(std::int64_t milli_cpu, std::int64_t mib) {
  return {MilliCpu(milli_cpu), MiB(mib)};
}

TEST(ClassesOf, APodOfOneContainerIsOneClass) {
  GpuRequest request = request_of("30/1024x2");
  request.selector.models = {"A100", "T4"};
  request.selector.models_excluded = {"P100"};
  request.selector.uuids = {"GPU-1"};
  const PodClass expected{resources_of(4000, 512), 2,       share_of("30/1024"), false,
                          {"A100", "T4"},          {"P100"}};
  EXPECT_THAT(classes_of(request, resources_of(4000, 512)), ElementsAre(expected));
}

TEST(ClassesOf, ModelsAreSortedWithoutDuplicates) {
  GpuRequest request = request_of("30/1024");
  GpuRequest other = request;
  request.selector = {{"T4", "A100", "T4"}, {"V100", "P100"}, {}, {}};
  other.selector = {{"A100", "T4"}, {"P100", "V100", "P100"}, {}, {}};
  EXPECT_EQ(classes_of(request, {}), classes_of(other, {}));
}

TEST(ClassesOf, WholeCardsAndSharesOfAllComputeAreDistinct) {
  const auto whole = classes_of(request_of("whole"), {});
  const auto share = classes_of(request_of("100/0"), {});
  EXPECT_TRUE(whole.at(0).whole);
  EXPECT_EQ(whole.at(0).per_card, share_of("100/0"));
  EXPECT_FALSE(share.at(0).whole);
  EXPECT_NE(whole, share);
}

TEST(ClassesOf, APodWithoutCardsIsAClassOfItsNodeResources) {
  const PodClass expected{.resources = resources_of(12500, 57344)};
  EXPECT_THAT(classes_of(GpuRequest{}, resources_of(12500, 57344)), ElementsAre(expected));
  EXPECT_THAT(classes_of(GpuRequest{}, {}), ElementsAre(PodClass{}));
}

TEST(ClassesOf, TheFirstOfSeveralContainersHasThePodsNodeResources) {
  const auto classes =
      classes_of(request_of("init:80/4000 30/1024 wholex2"), resources_of(8000, 64));
  ASSERT_THAT(classes, SizeIs(3));
  EXPECT_EQ(classes[0].resources, resources_of(8000, 64));
  EXPECT_EQ(classes[0].per_card, share_of("80/4000"));
  EXPECT_TRUE(classes[1].resources.zero());
  EXPECT_EQ(classes[1].per_card, share_of("30/1024"));
  EXPECT_TRUE(classes[2].resources.zero());
  EXPECT_EQ(classes[2].cards, 2);
}

TEST(ClassesOf, TheLargestContainersOfManyAreTaken) {
  const auto classes = classes_of(request_of("5/10 init:10/10 whole 20/10 3/10 30/10x2 4/10"),
                                  resources_of(8000, 64));
  ASSERT_THAT(classes, SizeIs(kPodClassesMax));
  EXPECT_EQ(classes[0].per_card, share_of("10/10")) << "in the order of the pod";
  EXPECT_EQ(classes[0].resources, resources_of(8000, 64));
  EXPECT_TRUE(classes[1].whole);
  EXPECT_EQ(classes[2].per_card, share_of("20/10"));
  EXPECT_EQ(classes[3].cards, 2);
}

// Classes of one card that differ in their CPU.
std::vector<CountedClass> counted(const std::vector<std::int64_t>& counts) {
  std::vector<CountedClass> classes;
  for (const std::int64_t count : counts) {
    const auto name = static_cast<std::int64_t>(classes.size());
    classes.push_back(
        {{.resources = resources_of(name, 0), .cards = 1}, static_cast<double>(count)});
  }
  return classes;
}

std::vector<std::int64_t> names_of(const Workload& workload) {
  std::vector<std::int64_t> names;
  for (const WeightedClass& one : workload.classes) names.push_back(one.what.resources.cpu.value());
  return names;
}

TEST(WorkloadOf, KeepsTheMostFrequentUntilTheyCover) {
  struct {
    std::vector<std::int64_t> counts;
    double cover;
    std::size_t most;
    std::vector<std::int64_t> kept;
  } const cases[] = {
      {{1, 50, 9, 40}, 1, 100, {1, 3, 2, 0}},
      {{1, 50, 9, 40}, 0.95, 100, {1, 3, 2}},
      // Exactly covered by two.
      {{1, 50, 9, 40}, 0.9, 100, {1, 3}},
      {{1, 50, 9, 40}, 0.5, 100, {1}},
      {{1, 50, 9, 40}, 0.01, 100, {1}},
      {{1, 50, 9, 40}, 0, 100, {}},
      {{1, 50, 9, 40}, 1, 2, {1, 3}},
      {{1, 50, 9, 40}, 1, 0, {}},
      // Equal counts in the order given.
      {{5, 7, 5, 7}, 1, 100, {1, 3, 0, 2}},
      // A class without pods is not expected.
      {{0, 3, 0}, 1, 100, {1}},
      {{0, 0}, 1, 100, {}},
      {{}, 0.95, 100, {}},
      // Counts whose sum is beyond 64 bits.
      {{INT64_MAX, INT64_MAX, INT64_MAX}, 0.5, 100, {0, 1}},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(names_of(workload_of(counted(test.counts), test.cover, test.most)), test.kept)
        << testing::PrintToString(test.counts) << " " << test.cover << " " << test.most;
  }
}

TEST(WorkloadOf, ClassesWithoutCardsTakeNoPlaceOfThoseWithCards) {
  std::vector<CountedClass> classes = counted({3, 2});
  for (int i = 0; i < 1'000; ++i)
    classes.push_back({{.resources = resources_of(1'000 + i, 0)}, 500});
  const Workload workload = workload_of(std::move(classes), 1, 2);
  const auto with_cards = std::ranges::count_if(
      workload.classes, [](const WeightedClass& one) { return one.what.cards > 0; });
  EXPECT_EQ(with_cards, 2);
}

TEST(WorkloadOf, ProbabilitiesAreOfWhatIsKept) {
  const Workload workload = workload_of(counted({10, 60, 30}), 0.9, 100);
  ASSERT_THAT(workload.classes, SizeIs(2));
  EXPECT_THAT(workload.classes[0].probability, DoubleEq(60.0 / 90));
  EXPECT_THAT(workload.classes[1].probability, DoubleEq(30.0 / 90));
}

TEST(WorkloadOf, ProbabilitiesSumUpToOneAndDoNotIncrease) {
  std::vector<std::int64_t> counts(300);
  for (std::size_t i = 0; i < counts.size(); ++i)
    counts[i] = static_cast<std::int64_t>(i * 7919 % 101);
  for (const double cover : {0.3, 0.95, 1.0}) {
    for (const std::size_t most : {1U, 10U, 1000U}) {
      const Workload workload = workload_of(counted(counts), cover, most);
      double sum = 0;
      double before = 1;
      for (const WeightedClass& one : workload.classes) {
        EXPECT_GT(one.probability, 0);
        EXPECT_LE(one.probability, before);
        before = one.probability;
        sum += one.probability;
      }
      EXPECT_NEAR(sum, 1, 1e-12);
      EXPECT_LE(workload.classes.size(), most);
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
