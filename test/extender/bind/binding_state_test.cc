#include "extender/bind/binding_state.h"

#include <gtest/gtest.h>

namespace mgpu::extender {
namespace {

struct Case {
  const char* name;
  std::string uid, node, cards;  // of the pod; cards "" = not annotated
  bool being_deleted;
  const char* phase;
  BindingState standing;
};

TEST(BindingState, OfAPodThatWasToHaveCardZeroOfNodeOne) {
  const Contract contract = *Contract::for_domain(kDefaultResourceDomain);
  const Annotations wanted = {{contract.assumed, "true"}, {contract.index_key("c"), "0"}};
  const Case cases[] = {
      {"unbound", "u", "", "", false, "Pending", BindingState::kUnbound},
      {"unbound, with old annotations", "u", "", "0", false, "Pending", BindingState::kUnbound},
      {"ours", "u", "n1", "0", false, "Running", BindingState::kOurs},
      {"ours, being deleted", "u", "n1", "0", true, "Running", BindingState::kOurs},
      {"other cards", "u", "n1", "1", false, "Running", BindingState::kHere},
      {"no cards", "u", "n1", "", false, "Running", BindingState::kHereBare},
      {"other node", "u", "n2", "0", false, "Running", BindingState::kElsewhere},
      {"other uid", "v", "n1", "0", false, "Running", BindingState::kAnother},
      {"being deleted", "u", "", "", true, "Pending", BindingState::kEnding},
      {"finished", "u", "", "", false, "Failed", BindingState::kEnding},
  };
  for (const Case& c : cases) {
    kube::Pod pod;
    pod.metadata.uid = c.uid;
    pod.metadata.being_deleted = c.being_deleted;
    pod.node_name = c.node;
    pod.phase = c.phase;
    if (!c.cards.empty()) {
      pod.metadata.annotations = {
          {contract.assumed, "true"}, {contract.index_key("c"), c.cards}, {"a user's", "own"}};
    }
    EXPECT_EQ(standing_of(pod, PodUid("u"), NodeName("n1"), wanted, contract), c.standing)
        << c.name;
  }
}

TEST(BindingState, OfAPodThatAsksForNoCardsIsByNodeAlone) {
  const Contract contract = *Contract::for_domain(kDefaultResourceDomain);
  kube::Pod pod;
  pod.metadata.uid = "u";
  pod.node_name = "n1";
  EXPECT_EQ(standing_of(pod, PodUid("u"), NodeName("n1"), {}, contract), BindingState::kOurs);
  EXPECT_EQ(standing_of(pod, PodUid("u"), NodeName("n2"), {}, contract), BindingState::kElsewhere);
}

}  // namespace
}  // namespace mgpu::extender
