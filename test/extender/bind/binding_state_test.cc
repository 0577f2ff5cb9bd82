#include "extender/bind/binding_state.h"

#include <gtest/gtest.h>

namespace mgpu::extender {
namespace {

struct Case {
  const char* name;
  std::string uid, node, cards;  // of the pod; cards are empty where it has no annotation
  bool being_deleted;
  const char* phase;
  BindingState state;
};

TEST(BindingState, OfAPodWhoseBindingHasCard0OfNode1) {
  const Contract contract = *Contract::for_domain(kDefaultResourceDomain);
  const Annotations posted = {{contract.assumed, "true"}, {contract.index_key("c"), "0"}};
  const Case cases[] = {
      {"unbound", "u", "", "", false, "Pending", BindingState::kUnbound},
      {"unbound, with old annotations", "u", "", "0", false, "Pending", BindingState::kUnbound},
      {"as posted", "u", "n1", "0", false, "Running", BindingState::kBoundAsPosted},
      {"as posted, being deleted", "u", "n1", "0", true, "Running", BindingState::kBoundAsPosted},
      {"other cards", "u", "n1", "1", false, "Running", BindingState::kBoundWithOtherCards},
      {"no cards", "u", "n1", "", false, "Running", BindingState::kBoundWithoutCards},
      {"other node", "u", "n2", "0", false, "Running", BindingState::kBoundElsewhere},
      {"other uid", "v", "n1", "0", false, "Running", BindingState::kAnotherPod},
      {"being deleted", "u", "", "", true, "Pending", BindingState::kTerminating},
      {"finished", "u", "", "", false, "Failed", BindingState::kTerminating},
  };
  for (const Case& c : cases) {
    kube::Pod pod;
    pod.metadata.uid = c.uid;
    pod.metadata.being_deleted = c.being_deleted;
    pod.node_name = c.node;
    pod.phase = c.phase;
    if (!c.cards.empty()) {
      pod.metadata.annotations = {
          {contract.assumed, "true"}, {contract.index_key("c"), c.cards}, {"set by", "a user"}};
    }
    EXPECT_EQ(binding_state_of(pod, PodUid("u"), NodeName("n1"), posted, contract), c.state)
        << c.name;
  }
}

TEST(BindingState, OfANonGpuPodDependsOnItsNodeOnly) {
  const Contract contract = *Contract::for_domain(kDefaultResourceDomain);
  kube::Pod pod;
  pod.metadata.uid = "u";
  pod.node_name = "n1";
  EXPECT_EQ(binding_state_of(pod, PodUid("u"), NodeName("n1"), {}, contract),
            BindingState::kBoundAsPosted);
  EXPECT_EQ(binding_state_of(pod, PodUid("u"), NodeName("n2"), {}, contract),
            BindingState::kBoundElsewhere);
}

}  // namespace
}  // namespace mgpu::extender
