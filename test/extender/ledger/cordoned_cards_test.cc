// Cards that an administrator keeps new pods from, by the annotation mgpu-cordoned-cards of the
// node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/ledger/claim.h"
#include "extender/ledger/ledger.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NodeFacts facts_with(const std::string& cordoned) {
  const Contract contract = *Contract::for_domain(kDefaultResourceDomain);
  kube::Node node;
  node.metadata.name = "n1";
  node.capacity["vke.volcengine.com/mgpu-core"] = "200";
  node.capacity["vke.volcengine.com/mgpu-memory"] = "2000";
  node.metadata.annotations["vke.volcengine.com/mgpu-cordoned-cards"] = cordoned;
  return node_facts_of(node, contract);
}

TEST(CordonedCards, AreReadFromTheNode) {
  const NodeFacts facts = facts_with("0,7");
  EXPECT_THAT(facts.cordoned, ElementsAre(CardIndex(0), CardIndex(7)));
  EXPECT_THAT(facts.problem, IsEmpty()) << "the node need not have the card";
}

// A node whose cards are gone would make its pods drift.
TEST(CordonedCards, ThatCannotBeReadAreAProblemAndLeaveTheCards) {
  for (const char* value : {"", "x", "1,0", "-1", "1 ,2", "99999999999999999999"}) {
    const NodeFacts facts = facts_with(value);
    EXPECT_THAT(facts.cordoned, IsEmpty()) << value;
    EXPECT_EQ(facts.cards.size(), 2U) << value;
    EXPECT_THAT(facts.problem, HasSubstr("annotation vke.volcengine.com/mgpu-cordoned-cards: "))
        << value;
  }
}

TEST(CordonedCards, GetNoNewPods) {
  Ledger ledger;
  ledger.apply_node(test::facts_of("n1: 0[100/1000 cordoned] 1[100/1000]"));
  EXPECT_EQ(test::assume_text(ledger, "a", "n1", "60/100"), "1");
  EXPECT_EQ(test::assume_text(ledger, "b", "n1", "60/100"),
            "node(s) had no single card with enough free mgpu-core");
  EXPECT_EQ(test::assume_text(ledger, "c", "n1", "60/100x2"),
            "node(s) had too few cards that are not cordoned");
}

TEST(CordonedCards, KeepTheirPods) {
  Ledger ledger;
  ledger.apply_node(test::facts_of("n1: 0[100/1000]"));
  ledger.apply_pod(test::bound_claim("a", "n1", "30/300", "0"));
  ledger.apply_node(test::facts_of("n1: 0[100/1000 cordoned]"));
  EXPECT_EQ(test::used_text(ledger, "n1"), "0=30/300");
  EXPECT_EQ(ledger.reader().counts().drifting, 0U);
}

TEST(CordonedCards, AreFreeAgainAtOnce) {
  Ledger ledger;
  ledger.apply_node(test::facts_of("n1: 0[100/1000 cordoned]"));
  EXPECT_EQ(test::assume_text(ledger, "a", "n1", "60/100"),
            "node(s) had too few cards that are not cordoned");
  const auto releases = ledger.reader().releases();
  ledger.apply_node(test::facts_of("n1: 0[100/1000]"));
  EXPECT_GT(ledger.reader().releases(), releases) << "pods that wait are tried again";
  EXPECT_EQ(test::assume_text(ledger, "a", "n1", "60/100"), "0");
}

// Scores and refusals are cached by node.
TEST(CordonedCards, ChangeCachedDecisions) {
  Ledger ledger;
  ledger.apply_node(test::facts_of("n1: 0[100/1000]"));
  const GpuRequest request = test::request_of("60/100");
  const std::string_view nodes[] = {"n1"};
  EXPECT_FALSE(ledger.decisions().why_not(nodes, request, Instant{})[0]);
  ledger.apply_node(test::facts_of("n1: 0[100/1000 cordoned]"));
  EXPECT_EQ(ledger.decisions().why_not(nodes, request, Instant{})[0], Reason::kCardsCordoned);
}

}  // namespace
}  // namespace mgpu::extender
