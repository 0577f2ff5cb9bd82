#include "plugin/allocation/node_use.h"

#include <gtest/gtest.h>

namespace mgpu::plugin {
namespace {

const Contract& default_contract() {
  static const Contract made = *Contract::for_domain(kDefaultResourceDomain);
  return made;
}

kube::Container container(const char* cpu, const char* core) {
  kube::Container container;
  if (*cpu != 0) container.requests["cpu"] = cpu;
  if (*core != 0) container.requests[default_contract().core_resource] = core;
  return container;
}

TEST(NodeUse, AddsWhatContainersRequest) {
  kube::Pod first;
  first.containers = {container("1500m", "30"), container("2", "")};
  first.overhead["cpu"] = "250m";
  kube::Pod second;
  second.containers = {container("", "200")};
  EXPECT_EQ(use_of({first, second}, default_contract()), (NodeUse{3750, Percent(230)}));
}

TEST(NodeUse, CountsInitContainersAsTheMaximum) {
  kube::Pod pod;
  pod.init_containers = {container("4", "")};
  pod.containers = {container("1", "10")};
  EXPECT_EQ(use_of({pod}, default_contract()), (NodeUse{4000, Percent(10)}));
}

TEST(NodeUse, SkipsFinishedPods) {
  kube::Pod pod;
  pod.phase = "Succeeded";
  pod.containers = {container("1", "10")};
  EXPECT_EQ(use_of({pod}, default_contract()), NodeUse{});
}

TEST(NodeUse, AnAmountThatCannotBeReadCountsAsZeroAndALargeOneDoesNotOverflow) {
  kube::Pod pod;
  pod.containers = {container("x", "10"), container("4e15", "4e18"), container("4e15", "4e18")};
  const NodeUse use = use_of({pod, pod}, default_contract());
  EXPECT_GT(use.milli_cpu, 0);
  EXPECT_GT(use.core, Percent(0));
}

}  // namespace
}  // namespace mgpu::plugin
