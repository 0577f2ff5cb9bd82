// The CPU and main memory of pods and nodes, and their sums in the ledger.
#include <gtest/gtest.h>

#include "extender/ledger/claim.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {
using test::at_ms;
using test::bound_claim;
using test::facts_of;

kube::Container requesting(const std::string& cpu, const std::string& memory) {
  kube::Container container;
  if (!cpu.empty()) container.requests["cpu"] = cpu;
  if (!memory.empty()) container.requests["memory"] = memory;
  return container;
}

NodeResources amount(std::int64_t milli, std::int64_t mib) {
  return {MilliCpu(milli), MiB(mib)};
}

TEST(ResourcesOf, IsTheSumOfContainersRoundedUp) {
  kube::Pod pod;
  pod.containers = {requesting("1500m", "1Gi"), requesting("2", "1"), requesting("", "")};
  EXPECT_EQ(resources_of(pod), amount(3'500, 1'025));
}

TEST(ResourcesOf, TakesTheLimitWhereThereIsNoRequest) {
  kube::Pod pod;
  pod.containers = {requesting("1", "")};
  pod.containers[0].limits = {{"cpu", "8"}, {"memory", "2Gi"}};
  EXPECT_EQ(resources_of(pod), amount(1'000, 2'048));
}

TEST(ResourcesOf, CountsInitContainersSidecarsAndOverhead) {
  kube::Pod pod;
  pod.init_containers = {requesting("4", "10Mi"), requesting("1", "100Mi"), requesting("3", "1Mi")};
  pod.init_containers[1].restart_always = true;
  pod.containers = {requesting("1", "50Mi")};
  // Init containers: 4 alone, then 3 beside the sidecar's 1; the app beside it 2.
  EXPECT_EQ(resources_of(pod), amount(4'000, 150));
  pod.overhead = {{"cpu", "250m"}, {"memory", "6Mi"}};
  EXPECT_EQ(resources_of(pod), amount(4'250, 156));
}

TEST(ResourcesOf, TheRequestsOfThePodAsAWholeCountInsteadOfItsContainers) {
  kube::Pod pod;
  pod.containers = {requesting("1", "50Mi"), requesting("", "")};
  pod.requests = {{"cpu", "6"}, {"hugepages-2Mi", "2Mi"}};
  EXPECT_EQ(resources_of(pod), amount(6'000, 50));
  pod.requests = {{"cpu", "6"}, {"memory", "1Gi"}};
  pod.overhead = {{"cpu", "250m"}};
  EXPECT_EQ(resources_of(pod), amount(6'250, 1'024));
  pod.given = {{.requests = {{"cpu", "7"}, {"memory", "1Mi"}}, .allocated = {{"cpu", "8"}}}};
  EXPECT_EQ(resources_of(pod), amount(8'250, 1'024));
  pod.resize_infeasible = true;
  EXPECT_EQ(resources_of(pod), amount(8'250, 1));
}

TEST(ResourcesOf, WhileAContainerIsResizedTheMostCounts) {
  kube::Pod pod;
  pod.init_containers = {requesting("1", ""), requesting("1", "")};
  pod.init_containers[0].name = "init";
  pod.init_containers[1].name = "side";
  pod.init_containers[1].restart_always = true;
  pod.containers = {requesting("2", "10Mi")};
  pod.containers[0].name = "app";
  const kube::GivenResources more{.requests = {{"cpu", "3"}}, .allocated = {{"cpu", "4"}}};
  pod.container_statuses = {{.name = "app", .id = {}, .given = more},
                            {.name = "init", .id = {}, .given = more},
                            {.name = "gone", .id = {}, .given = more}};
  EXPECT_EQ(resources_of(pod), amount(5'000, 10));
  pod.container_statuses.push_back({.name = "side", .id = {}, .given = more});
  EXPECT_EQ(resources_of(pod), amount(8'000, 10));
  // The node will not give more than it has given.
  pod.resize_infeasible = true;
  pod.containers[0].requests = {{"cpu", "64"}};
  EXPECT_EQ(resources_of(pod), amount(8'000, 0));
}

TEST(ResourcesOf, UnreadableAndHugeQuantitiesAreBounded) {
  kube::Pod pod;
  pod.containers = {requesting("many", "-1"), requesting("9E", "9E"), requesting("1P", "4E")};
  EXPECT_EQ(resources_of(pod), amount(std::int64_t{1} << 40, std::int64_t{1} << 40));
}

TEST(ResourcesOf, APodOfManyHugeContainersIsBounded) {
  kube::Pod pod;
  pod.containers.assign(18'000, requesting("1P", "1Ei"));
  pod.overhead = {{"cpu", "1P"}, {"memory", "4E"}};
  EXPECT_EQ(resources_of(pod), amount(std::int64_t{1} << 40, std::int64_t{1} << 40));
}

TEST(NodeResourcesTest, SumsEndAtTheLargestAmountAndDifferencesAtZero) {
  const NodeResources most = amount(MilliCpu::kMax, MiB::kMax);
  NodeResources sum = most;
  sum += most;
  EXPECT_EQ(sum, most);
  NodeResources difference = amount(1, 1);
  difference -= most;
  EXPECT_EQ(difference, NodeResources{});
}

TEST(ResourcesOf, AmountsOverTheLargestNumberAreLarge) {
  kube::Pod pod;
  pod.containers = {requesting("9E", "9E")};
  EXPECT_EQ(resources_of(pod), amount(std::int64_t{1} << 40, std::int64_t{1} << 40));
}

TEST(ResourcesOf, AmountsThatCannotBeReadAreLarge) {
  for (const std::string& text : {std::string("1e745"), "1" + std::string(300, '0')}) {
    kube::Pod pod;
    pod.containers = {requesting(text, text)};
    EXPECT_EQ(resources_of(pod), amount(std::int64_t{1} << 40, std::int64_t{1} << 40)) << text;
  }
}

TEST(NodeFactsOf, AllocatableAmountsThatCannotBeReadAreNothing) {
  kube::Node node;
  node.allocatable = {{"cpu", "1e745"}, {"memory", "much"}};
  const auto contract = Contract::for_domain(kDefaultResourceDomain);
  ASSERT_TRUE(contract);
  EXPECT_EQ(node_facts_of(node, *contract).allocatable, NodeResources{});
}

TEST(ResourcesOf, AreBoundedForAPodOfManyContainers) {
  kube::Pod pod;
  pod.containers.assign(20'000, requesting("1E", "1Ei"));
  pod.init_containers = pod.containers;
  pod.overhead = {{"cpu", "1E"}, {"memory", "1Ei"}};
  EXPECT_EQ(resources_of(pod), amount(std::int64_t{1} << 40, std::int64_t{1} << 40));
}

TEST(NodeFactsOf, HaveTheAllocatableOfTheNode) {
  kube::Node node;
  node.allocatable = {{"cpu", "95500m"}, {"memory", "384Gi"}};
  const auto contract = Contract::for_domain(kDefaultResourceDomain);
  ASSERT_TRUE(contract);
  EXPECT_EQ(node_facts_of(node, *contract).allocatable, amount(95'500, 393'216));
  EXPECT_EQ(node_facts_of({}, *contract).allocatable, NodeResources{});
}

TEST(NodeFactsOf, HaveTheNumberOfPodsOfTheNode) {
  kube::Node node;
  node.allocatable = {{"pods", "110"}};
  const auto contract = Contract::for_domain(kDefaultResourceDomain);
  ASSERT_TRUE(contract);
  EXPECT_EQ(node_facts_of(node, *contract).pods_allowed, 110);
  EXPECT_EQ(node_facts_of({}, *contract).pods_allowed, 0);
}

// A request is rounded up, so that no pod fits here that kube-scheduler rejects.
TEST(NodeFactsOf, MemoryIsRoundedDown) {
  kube::Node node;
  node.allocatable = {{"cpu", "1"}, {"memory", "2097151"}};
  const auto contract = Contract::for_domain(kDefaultResourceDomain);
  ASSERT_TRUE(contract);
  EXPECT_EQ(node_facts_of(node, *contract).allocatable, amount(1'000, 1));
}

struct ResourcesUsedTest : testing::Test {
  ResourcesUsedTest() { ledger.apply_node(facts_of("n1: 0[100/1000]")); }

  NodeResources used(const char* node = "n1") {
    NodeResources used;
    ledger.reader().read(at_ms(0), [&](const View& view) {
      const Node* found = view.find(node);
      if (found != nullptr) used = found->resources_used;
    });
    return used;
  }
  Claim claim(const char* uid, std::int64_t milli) {
    Claim claim = bound_claim(uid, "n1", "10/100", "0");
    claim.resources = amount(milli, 1);
    return claim;
  }
  NonGpuPod non_gpu(const char* uid, const char* node, std::int64_t milli) {
    return {PodUid(uid), NodeName(node), amount(milli, 2)};
  }

  Ledger ledger;
};

TEST_F(ResourcesUsedTest, IsTheSumOfPodsWithCardsAndWithout) {
  ledger.apply_pod(claim("a", 1'000));
  ledger.apply_non_gpu(non_gpu("b", "n1", 500));
  EXPECT_EQ(used(), amount(1'500, 3));
  ledger.apply_non_gpu(non_gpu("b", "n1", 700));
  EXPECT_EQ(used(), amount(1'700, 3)) << "the same pod again";
  ledger.remove_pod(PodUid("a"));
  ledger.remove_pod(PodUid("b"));
  EXPECT_EQ(used(), NodeResources{});
}

TEST_F(ResourcesUsedTest, ManyHugePodsDoNotOverflow) {
  kube::Pod huge;
  huge.containers.assign(20'000, requesting("1E", "1Ei"));
  const NodeResources resources = resources_of(huge);
  for (int i = 0; i < 300; ++i)
    ledger.apply_non_gpu({PodUid("p" + std::to_string(i)), NodeName("n1"), resources});
  EXPECT_EQ(used(), amount(300 * (std::int64_t{1} << 40), 300 * (std::int64_t{1} << 40)));
  ledger.replace_pods({}, {});
  EXPECT_EQ(used(), NodeResources{});
}

TEST_F(ResourcesUsedTest, PodsWithCardsAndWithoutAreCounted) {
  const auto counted = [this] {
    std::int64_t pods = 0;
    ledger.reader().read(at_ms(0), [&](const View& view) { pods = view.find("n1")->pods_counted; });
    return pods;
  };
  ledger.apply_pod(claim("a", 1'000));
  ledger.apply_non_gpu(non_gpu("b", "n1", 500));
  ledger.apply_non_gpu(non_gpu("b", "n1", 700));
  EXPECT_EQ(counted(), 2);
  ledger.remove_pod(PodUid("a"));
  ledger.remove_pod(PodUid("b"));
  EXPECT_EQ(counted(), 0);
}

TEST_F(ResourcesUsedTest, ARelistRemovesAllOtherPods) {
  ledger.apply_pod(claim("a", 1'000));
  ledger.apply_non_gpu(non_gpu("b", "n1", 500));
  ledger.replace_pods({claim("c", 10)}, {non_gpu("d", "n1", 20)});
  EXPECT_EQ(used(), amount(30, 3));
  ledger.replace_pods({}, {});
  EXPECT_EQ(used(), NodeResources{});
}

TEST_F(ResourcesUsedTest, APodWithoutCardsDoesNotKeepANodeVisible) {
  ledger.apply_non_gpu(non_gpu("b", "gone", 500));
  EXPECT_EQ(ledger.reader().node_names().size(), 1U);
  EXPECT_FALSE(ledger.reader().node(NodeName("gone")));
  ledger.apply_node(facts_of("gone: 0[100/1000]"));
  EXPECT_EQ(used("gone"), amount(500, 2)) << "known before its node";
}

TEST_F(ResourcesUsedTest, AnAssumedPodCountsUntilItIsForgotten) {
  Claim assumed = test::unplaced_claim("a", "n1", "10/100");
  assumed.resources = amount(250, 1);
  const auto answer = ledger.assume(assumed, *find_policy("binpack")->card, at_ms(0));
  EXPECT_EQ(used(), amount(250, 1));
  ledger.forget(std::get<Assumed>(answer).id);
  EXPECT_EQ(used(), NodeResources{});
}

}  // namespace
}  // namespace mgpu::extender
