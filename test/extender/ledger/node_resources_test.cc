#include "extender/ledger/node_resources.h"

#include <gtest/gtest.h>

#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {
using test::at_ms;
using test::bound_claim;
using test::facts_of;

kube::Container asking(const std::string& cpu, const std::string& memory) {
  kube::Container container;
  if (!cpu.empty()) container.requests["cpu"] = cpu;
  if (!memory.empty()) container.requests["memory"] = memory;
  return container;
}

NodeResources amount(std::int64_t milli, std::int64_t mib) {
  return {MilliCpu(milli), MiB(mib)};
}

TEST(HostOf, IsTheSumOfContainersRoundedUp) {
  kube::Pod pod;
  pod.containers = {asking("1500m", "1Gi"), asking("2", "1"), asking("", "")};
  EXPECT_EQ(resources_of(pod), amount(3'500, 1'025));
}

TEST(HostOf, TakesTheLimitWhereThereIsNoRequest) {
  kube::Pod pod;
  pod.containers = {asking("1", "")};
  pod.containers[0].limits = {{"cpu", "8"}, {"memory", "2Gi"}};
  EXPECT_EQ(resources_of(pod), amount(1'000, 2'048));
}

TEST(HostOf, CountsInitContainersSidecarsAndOverhead) {
  kube::Pod pod;
  pod.init_containers = {asking("4", "10Mi"), asking("1", "100Mi"), asking("3", "1Mi")};
  pod.init_containers[1].restart_always = true;
  pod.containers = {asking("1", "50Mi")};
  // Init containers: 4 alone, then 3 beside the sidecar's 1; the app beside it 2.
  EXPECT_EQ(resources_of(pod), amount(4'000, 150));
  pod.overhead = {{"cpu", "250m"}, {"memory", "6Mi"}};
  EXPECT_EQ(resources_of(pod), amount(4'250, 156));
}

TEST(HostOf, WhatCannotBeReadOrIsTooMuchDoesNoHarm) {
  kube::Pod pod;
  pod.containers = {asking("many", "-1"), asking("9E", "9E"), asking("1P", "4E")};
  EXPECT_EQ(resources_of(pod), amount(std::int64_t{1} << 40, std::int64_t{1} << 40));
}

TEST(AllocatableOf, IsTheNodes) {
  kube::Node node;
  node.allocatable = {{"cpu", "95500m"}, {"memory", "384Gi"}};
  EXPECT_EQ(allocatable_of(node), amount(95'500, 393'216));
  EXPECT_EQ(allocatable_of({}), NodeResources{});
}

struct HostUsedTest : testing::Test {
  HostUsedTest() { ledger.apply_node(facts_of("n1: 0[100/1000]")); }

  NodeResources used(const char* node = "n1") {
    NodeResources used;
    ledger.read(at_ms(0), [&](const View& view) {
      const Node* found = view.find(node);
      if (found != nullptr) used = found->resources_used;
    });
    return used;
  }
  Claim claim(const char* uid, std::int64_t milli) {
    Claim claim = bound_claim(uid, "n1", "10/100", "0");
    claim.host = amount(milli, 1);
    return claim;
  }
  NonGpuPod plain(const char* uid, const char* node, std::int64_t milli) {
    return {PodUid(uid), NodeName(node), amount(milli, 2)};
  }

  Ledger ledger;
};

TEST_F(HostUsedTest, IsTheSumOfPodsWithCardsAndWithout) {
  ledger.apply_pod(claim("a", 1'000));
  ledger.apply_non_gpu(plain("b", "n1", 500));
  EXPECT_EQ(used(), amount(1'500, 3));
  ledger.apply_non_gpu(plain("b", "n1", 700));
  EXPECT_EQ(used(), amount(1'700, 3)) << "the same pod again";
  ledger.remove_pod(PodUid("a"));
  ledger.remove_pod(PodUid("b"));
  EXPECT_EQ(used(), NodeResources{});
}

TEST_F(HostUsedTest, ARelistLeavesExactlyWhatItNames) {
  ledger.apply_pod(claim("a", 1'000));
  ledger.apply_non_gpu(plain("b", "n1", 500));
  ledger.replace_pods({claim("c", 10)}, {plain("d", "n1", 20)});
  EXPECT_EQ(used(), amount(30, 3));
  ledger.replace_pods({}, {});
  EXPECT_EQ(used(), NodeResources{});
}

TEST_F(HostUsedTest, APodWithoutCardsKeepsNoNodeInView) {
  ledger.apply_non_gpu(plain("b", "gone", 500));
  EXPECT_EQ(ledger.node_names().size(), 1U);
  EXPECT_FALSE(ledger.node(NodeName("gone")));
  ledger.apply_node(facts_of("gone: 0[100/1000]"));
  EXPECT_EQ(used("gone"), amount(500, 2)) << "known before its node";
}

TEST_F(HostUsedTest, AnAssumedPodCountsUntilItIsForgotten) {
  Claim assumed = test::unplaced_claim("a", "n1", "10/100");
  assumed.host = amount(250, 1);
  const auto answer = ledger.assume(assumed, *find_policy("binpack")->card, at_ms(0));
  EXPECT_EQ(used(), amount(250, 1));
  ledger.forget(std::get<Assumed>(answer).id);
  EXPECT_EQ(used(), NodeResources{});
}

}  // namespace
}  // namespace mgpu::extender
