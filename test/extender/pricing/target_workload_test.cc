#include "extender/pricing/target_workload.h"

#include <gtest/gtest.h>

#include <random>

#include "extender/placement/fit.h"
#include "extender/placement/measures.h"
#include "test/support/cluster_text.h"
#include "test/support/fragmentation.h"

namespace mgpu::extender {
namespace {

using test::expected_fragmentation;
using test::node_of;
using test::share_of;

constexpr int kRounds = 3'000;

// Small numbers, so that requests and free parts are often equal.
class RandomWorld {
 public:
  explicit RandomWorld(std::uint32_t seed) : random_(seed) {}

  int upto(int most) { return std::uniform_int_distribution(0, most)(random_); }

  std::vector<std::string> models() {
    static const std::vector<std::string> kSome[] = {{},         {},         {"A"},      {"b"},
                                                     {"A", "B"}, {"C", "a"}, {"nowhere"}};
    return kSome[upto(6)];
  }

  PodClass pod_class() {
    PodClass what;
    what.resources.cpu = MilliCpu(upto(5) * 1000);
    what.cards = upto(3);
    if (what.cards == 0) return what;
    what.whole = upto(3) == 0;
    what.per_card.core = what.whole ? kWholeCard : Percent(1 + upto(9) * 11);
    what.models = models();
    if (upto(3) == 0) what.models_excluded = models();
    return what;
  }

  Workload workload() {
    std::vector<CountedClass> counted;
    for (int classes = upto(30); classes > 0; --classes)
      counted.push_back({pod_class(), 1.0 + upto(9)});
    return workload_of(std::move(counted), 1, 1000);
  }

  Card card(int index) {
    static const char* const kModels[] = {"A", "a", "B", "C", "D", ""};
    Card card;
    card.index = CardIndex(2 * index);
    card.model = kModels[upto(mixed_ ? 5 : 0)];
    card.capacity = share_of("100/1000");
    card.used = {Percent(upto(11) * 10), MiB()};
    if (upto(5) == 0) card.expected = {Percent(upto(11) * 10), MiB()};
    card.healthy = upto(9) != 0;
    card.uncertain = upto(19) == 0;
    return card;
  }

  Node node() {
    Node node;
    mixed_ = upto(1) == 0;
    const int cards = upto(9) == 0 ? 70 : upto(8);
    for (int i = 0; i < cards; ++i) node.cards.push_back(card(i));
    if (upto(4) != 0) node.allocatable.cpu = MilliCpu(upto(6) * 1000);
    node.resources_used.cpu = MilliCpu(upto(6) * 1000);
    return node;
  }

 private:
  std::mt19937 random_;
  bool mixed_ = false;
};

TEST(TargetWorkload, EqualsTheDefinition) {
  RandomWorld random(1);
  for (int round = 0; round < kRounds; ++round) {
    const Workload workload = random.workload();
    const TargetWorkload target(workload);
    const Node node = random.node();
    const double found = target.fragmentation(node);
    ASSERT_NEAR(found, expected_fragmentation(node, workload), 1e-6) << round;
    ASSERT_GE(found, 0);
    std::int64_t free = 0;
    for (const Card& card : cards_of(node)) free += free_core(card);
    ASSERT_LE(found, static_cast<double>(free) * kMilliPerPercent + 1e-6);
    ASSERT_EQ(target.empty(), workload.classes.empty());
  }
}

TEST(TargetWorkload, IsZeroWhereEmpty) {
  EXPECT_TRUE(TargetWorkload().empty());
  EXPECT_TRUE(TargetWorkload(Workload{}).empty());
  EXPECT_EQ(TargetWorkload().fragmentation(node_of("n: 0[40/100]")), 0);
  EXPECT_FALSE(TargetWorkload(Workload{{{PodClass{}, 1}}}).empty());
}

}  // namespace
}  // namespace mgpu::extender
