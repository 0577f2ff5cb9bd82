#include "extender/learning/namespace_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "extender/learning/limits.h"

namespace mgpu::extender {
namespace {

constexpr std::size_t kManyClasses = 1'000;

// A class that is recognized by its compute.
ClassCount class_count(int core, std::int64_t pods, std::int64_t memory_mib = 0) {
  const PodClass what{.cards = 1, .per_card = {Percent(core), MiB(100)}};
  return {std::make_shared<const PodClass>(what), pods, memory_mib};
}

NamespaceCount namespace_with(std::vector<ClassCount> classes) {
  std::int64_t pods = 0;
  for (const ClassCount& one : classes) pods += one.pods;
  return {pods, std::move(classes)};
}

// `classes` classes from `first` on, each of `pods` pods.
NamespaceCount namespace_of_many(int first, int classes, std::int64_t pods) {
  std::vector<ClassCount> counts;
  for (int core = first; core < first + classes; ++core) counts.push_back(class_count(core, pods));
  return namespace_with(std::move(counts));
}

double pods_for(const std::vector<CountedClass>& classes, int core) {
  for (const CountedClass& one : classes)
    if (one.what.per_card.core == Percent(core)) return one.count;
  return 0;
}

TEST(NamespaceShares, ASingleNamespaceCountsInFull) {
  const auto classes = merged({namespace_of_many(1, 50, 1'000)}, {}, 10);
  EXPECT_EQ(classes.size(), 50U);
  EXPECT_EQ(pods_for(classes, 7), 1'000);
}

TEST(NamespaceShares, EqualClassesOfNamespacesAreOneWithTheMeanMemory) {
  const auto classes =
      merged({namespace_with({class_count(30, 1, 100)}), namespace_with({class_count(30, 2, 500)})},
             {}, kManyClasses);
  ASSERT_EQ(classes.size(), 1U);
  EXPECT_EQ(classes[0].count, 3);
  EXPECT_EQ(classes[0].what.resources.memory, MiB(200));
}

TEST(NamespaceShares, InitialPodsCountInFull) {
  const auto classes =
      merged({namespace_with({class_count(30, 500)})}, {class_count(100, 1)}, kManyClasses);
  EXPECT_EQ(pods_for(classes, 30), 500);
  EXPECT_EQ(pods_for(classes, 100), 1);
}

TEST(NamespaceShares, OneCountsForAsManyPodsAsAllOthersAtMost) {
  struct {
    std::int64_t hostile;
    std::int64_t first;
    std::int64_t second;
    double counts_for;
  } const cases[] = {
      {50, 10, 10, 50},        // fewer than any namespace may have
      {100, 10, 10, 100},      //
      {5'000, 10, 10, 100},    // others are few
      {5'000, 200, 300, 500},  //
      {5'000, 4'000, 2'000, 5'000},
  };
  for (const auto& test : cases) {
    const auto classes = merged({namespace_with({class_count(30, test.first)}),
                                 namespace_with({class_count(1, test.hostile)}),
                                 namespace_with({class_count(40, test.second)})},
                                {}, kManyClasses);
    EXPECT_DOUBLE_EQ(pods_for(classes, 1), test.counts_for) << test.hostile;
    EXPECT_EQ(pods_for(classes, 30) + pods_for(classes, 40),
              static_cast<double>(test.first + test.second));
  }
}

TEST(NamespaceShares, ManyClassesOfOneDoNotTakeThePlacesOfOthers) {
  const auto classes =
      merged({namespace_of_many(1, 10, 1), namespace_of_many(11, 80, 1'000)}, {}, 40);
  EXPECT_EQ(classes.size(), 40U);
  for (int core = 1; core <= 10; ++core) EXPECT_EQ(pods_for(classes, core), 1) << core;
}

TEST(NamespaceShares, NamespacesWithManyClassesShareThePlacesEqually) {
  const auto classes = merged(
      {namespace_of_many(1, 30, 1), namespace_of_many(31, 30, 2), namespace_of_many(61, 5, 3)}, {},
      25);
  const auto within = [&](int first, int last) {
    return std::ranges::count_if(classes, [&](const CountedClass& one) {
      return one.what.per_card.core >= Percent(first) && one.what.per_card.core <= Percent(last);
    });
  };
  EXPECT_EQ(within(1, 30), 10);
  EXPECT_EQ(within(31, 60), 10);
  EXPECT_EQ(within(61, 65), 5);
}

TEST(NamespaceShares, TheMostFrequentClassesAreKept) {
  NamespaceCount many = namespace_of_many(1, 20, 1);
  many.classes[13].pods = 5;
  const auto classes = merged({many, namespace_of_many(50, 1, 1)}, {}, 3);
  EXPECT_EQ(pods_for(classes, 14), 5);
  EXPECT_EQ(classes.size(), 3U);
}

TEST(NamespaceShares, EachOfManyNamespacesKeepsAClass) {
  std::vector<NamespaceCount> namespaces;
  for (int i = 1; i <= 20; ++i) namespaces.push_back(namespace_of_many(i, 1, 1));
  EXPECT_EQ(merged(namespaces, {}, 10).size(), 20U);
}

}  // namespace
}  // namespace mgpu::extender
