// A pod keeps the cards that it was bound with, whatever happens to its annotations later, and a
// pod that was bound without cards costs its own request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "extender/ledger/ledger.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using test::assume_text;
using test::used_text;
using testing::HasSubstr;

class KeptCardsTest : public testing::Test {
 protected:
  KeptCardsTest() { ledger.apply_node(test::facts_of("n1: 0[100/1000] 1[100/1000]")); }

  // A pod of one container, bound to n1. Empty amounts and cards are left out.
  kube::Pod bound_pod(const std::string& core, const std::string& memory,
                      const std::string& cards = "") const {
    kube::Pod pod;
    pod.metadata.name = "a";
    pod.metadata.name_space = "default";
    pod.metadata.uid = "a";
    pod.node_name = "n1";
    kube::Container& main = pod.containers.emplace_back();
    main.name = "main";
    if (!core.empty()) main.limits[contract.core_resource] = core;
    if (!memory.empty()) main.limits[contract.memory_resource] = memory;
    if (cards.empty()) return pod;
    pod.metadata.annotations[contract.assumed] = "true";
    pod.metadata.annotations[contract.index_key("main")] = cards;
    return pod;
  }
  Claim claim(const kube::Pod& pod) const { return *claim_of(pod, contract); }
  void see(const kube::Pod& pod) { ledger.apply_pod(claim(pod)); }
  void relist(const kube::Pod& pod) {
    std::vector<Claim> listed;
    listed.push_back(claim(pod));
    ledger.replace_pods(std::move(listed));
  }
  // The attempt to bind `pod`, which the ledger places.
  ClaimId attempt(const kube::Pod& pod) {
    Claim unplaced = test::unplaced_claim("a", "n1", "1/1");
    unplaced.request = *read_request(pod, contract, MiB());
    const auto answer =
        ledger.assume(std::move(unplaced), *find_policy("binpack")->card, Instant{});
    return std::get<Assumed>(answer).id;
  }
  ClaimView shown() const { return *ledger.reader().claim({"default", "a"}); }
  std::string used() const { return used_text(ledger, "n1"); }

  const Contract contract = *Contract::for_domain(kDefaultResourceDomain);
  Ledger ledger;
};

// --- edited annotations --------------------------------------------------------------------------

TEST_F(KeptCardsTest, NoEditOfAnnotationsChangesAClaim) {
  const std::string index = contract.index_key("main");
  const std::string counts = contract.container_multiple_gpu;
  using Annotations = kube::StringMap;
  const struct {
    const char* what;
    std::function<void(Annotations&)> edit;
  } cases[] = {
      {"another card", [&](Annotations& all) { all[index] = "1"; }},
      {"more cards", [&](Annotations& all) { all[index] = "0,1"; }},
      {"a card that the node does not have", [&](Annotations& all) { all[index] = "7"; }},
      {"an index that is no number", [&](Annotations& all) { all[index] = "x"; }},
      {"no index", [&](Annotations& all) { all.erase(index); }},
      {"no annotations", [&](Annotations& all) { all.clear(); }},
      {"a number of cards", [&](Annotations& all) { all[counts] = "2"; }},
      {"a number of cards that is no number", [&](Annotations& all) { all[counts] = "x"; }},
      {"numbers and cards that agree",
       [&](Annotations& all) {
         all[counts] = "2";
         all[index] = "0,1";
       }},
      {"not assumed", [&](Annotations& all) { all[contract.assumed] = "false"; }},
      {"a selector", [&](Annotations& all) { all[contract.gpu_model] = ",,,"; }},
      {"a policy", [&](Annotations& all) { all[contract.policy] = "none"; }},
  };
  for (const auto& one : cases) {
    kube::Pod pod = bound_pod("30", "300", "0");
    see(pod);
    one.edit(pod.metadata.annotations);
    see(pod);
    EXPECT_EQ(used(), "0=30/300 1=0/0") << one.what;
    relist(pod);
    EXPECT_EQ(used(), "0=30/300 1=0/0") << one.what << ", after a relist";
    ledger.remove_pod(PodUid("a"));
    EXPECT_EQ(used(), "0=0/0 1=0/0") << one.what;
  }
}

TEST_F(KeptCardsTest, APodOfAnotherUidHasItsOwnCards) {
  see(bound_pod("30", "300", "0"));
  kube::Pod successor = bound_pod("30", "300", "1");
  successor.metadata.uid = "b";
  relist(successor);
  EXPECT_EQ(used(), "0=0/0 1=30/300");
}

TEST_F(KeptCardsTest, LabelsAndPriorityAreThoseOfTheLastEvent) {
  kube::Pod pod = bound_pod("30", "300", "0");
  see(pod);
  pod.metadata.labels["app"] = "train";
  pod.priority = 7;
  see(pod);
  EXPECT_EQ(shown().claim.labels, pod.metadata.labels);
  EXPECT_EQ(shown().claim.priority, 7);
}

// --- the number of cards is edited between filter and bind ---------------------------------------

TEST_F(KeptCardsTest, AnEditBetweenFilterAndBindChangesNothing) {
  kube::Pod pod = bound_pod("100", "1000");
  pod.metadata.annotations[contract.container_multiple_gpu] = "2";
  const ClaimId id = attempt(pod);
  EXPECT_EQ(used(), "0=50/500 1=50/500");
  ledger.bound(id, Instant{});
  // The API server has the cards of the binding, and the number of cards of the edit.
  pod.metadata.annotations[contract.index_key("main")] = "0,1";
  pod.metadata.annotations[contract.container_multiple_gpu] = "4";
  see(pod);
  EXPECT_EQ(used(), "0=50/500 1=50/500");
  EXPECT_EQ(assume_text(ledger, "b", "n1", "50/500x2"), "0,1");
}

TEST_F(KeptCardsTest, AnEditedNumberOfCardsChangesNothingAfterARestart) {
  kube::Pod pod = bound_pod("100", "1000", "0,1");
  for (const char* counts : {"4", "1", "x", ""}) {
    pod.metadata.annotations[contract.container_multiple_gpu] = counts;
    relist(pod);
    EXPECT_EQ(used(), "0=50/500 1=50/500") << counts;
    ledger.replace_pods({});
  }
}

// --- pods that were bound without cards ----------------------------------------------------------

TEST_F(KeptCardsTest, APodBoundWithoutCardsCostsItsRequestOnEachCard) {
  const struct {
    const char* core;
    const char* memory;
    const char* used;
  } cases[] = {
      {"1", "10", "0=1/10 1=1/10"},
      {"30", "5000", "0=30/1000 1=30/1000"},
      {"100", "", "0=100/1000 1=100/1000"},
      {"200", "800", "0=100/400 1=100/400"},
      // filter would refuse these.
      {"150", "800", "0=100/400 1=100/400"},
      {"30", "", "0=30/0 1=30/0"},
      {"", "300", "0=0/300 1=0/300"},
      {"9000", "", "0=100/1000 1=100/1000"},
  };
  for (const auto& one : cases) {
    see(bound_pod(one.core, one.memory));
    EXPECT_EQ(used(), one.used) << one.core << "/" << one.memory;
    ledger.remove_pod(PodUid("a"));
    EXPECT_EQ(used(), "0=0/0 1=0/0");
  }
}

TEST_F(KeptCardsTest, APodOfOnePercentLeavesTheRestOfTheNode) {
  see(bound_pod("1", "10"));
  EXPECT_EQ(assume_text(ledger, "b", "n1", "99/990x2"), "0,1");
}

TEST_F(KeptCardsTest, AnAnnotationThatIsWrittenLaterGivesNoCards) {
  see(bound_pod("30", "300"));
  see(bound_pod("30", "300", "1"));
  EXPECT_EQ(used(), "0=30/300 1=30/300");
  EXPECT_EQ(shown().claim.drift, DriftKind::kBindingWithoutCards);
}

TEST_F(KeptCardsTest, CardsThatAppearHoldTheRequestToo) {
  see(bound_pod("30", "300"));
  ledger.apply_node(test::facts_of("n1: 0[100/1000] 1[100/200] 2[100/1000]"));
  EXPECT_EQ(used(), "0=30/300 1=30/200 2=30/300");
}

TEST_F(KeptCardsTest, APodOfManyContainersCostsTheirRequests) {
  kube::Pod pod = bound_pod("1", "10");
  for (int i = 0; i < 70; ++i) {
    pod.containers.push_back(pod.containers.front());
    pod.containers.back().name += std::to_string(i);
  }
  see(pod);
  EXPECT_EQ(used(), "0=71/710 1=71/710");
}

// The API server stores no such amount of an extended resource, except one over 2^62.
TEST_F(KeptCardsTest, AnAmountThatCannotBeReadMakesCardsUncertain) {
  for (const char* core : {"9E", "-30", "0.5", "many"}) {
    see(bound_pod(core, "300"));
    EXPECT_EQ(used(), "0=0/0? 1=0/0?") << core;
    ledger.remove_pod(PodUid("a"));
  }
}

TEST_F(KeptCardsTest, ACardIsNotOverfullByAPodThatMayBeOnAnother) {
  see(bound_pod("80", "800"));
  ledger.apply_pod(test::bound_claim("b", "n1", "80/800", "0"));
  EXPECT_EQ(used(), "0=160/1600 1=80/800");
  EXPECT_EQ(ledger.reader().counts().overfull, 0u);
  ledger.apply_pod(test::bound_claim("c", "n1", "80/800", "0"));
  EXPECT_EQ(ledger.reader().counts().overfull, 1u);
}

}  // namespace
}  // namespace mgpu::extender
