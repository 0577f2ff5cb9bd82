// Claims of bound pods and cards of nodes, as read from API objects.
#include "extender/ledger/claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/limits.h"
#include "test/support/cluster_text.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using testing::HasSubstr;

const Contract& contract() {
  static const Contract kContract = *Contract::for_domain(kDefaultResourceDomain);
  return kContract;
}

kube::Container container(const std::string& name, const char* core, const char* memory) {
  kube::Container container;
  container.name = name;
  if (*core != 0) container.limits[contract().core_resource] = core;
  if (*memory != 0) container.limits[contract().memory_resource] = memory;
  return container;
}

kube::Pod pod_of(const char* core, const char* memory) {
  kube::Pod pod;
  pod.metadata.name = "a";
  pod.metadata.name_space = "team";
  pod.metadata.uid = "uid-a";
  pod.node_name = "n1";
  pod.containers = {container("main", core, memory)};
  return pod;
}

kube::Pod placed_pod(const char* core, const char* memory, const char* cards) {
  kube::Pod pod = pod_of(core, memory);
  pod.metadata.annotations[contract().assumed] = "true";
  pod.metadata.annotations[contract().index_key("main")] = cards;
  return pod;
}

// "drift: cards", such as "none: 0,2"; "nothing" for a pod without cards.
std::string claimed(const kube::Pod& pod) {
  const auto claim = claim_of(pod, contract());
  if (!claim) return "nothing";
  return test::text_of(claim->drift) +
         (claim->placement ? ": " + test::text_of(*claim->placement) : "");
}

TEST(ClaimOf, PodThatRequestsNoCardsHoldsNothing) {
  EXPECT_EQ(claimed(pod_of("", "")), "nothing");
  EXPECT_EQ(claimed(pod_of("0", "0")), "nothing");
  kube::Pod junk = pod_of("", "");
  junk.metadata.annotations[contract().container_multiple_gpu] = "no number";
  junk.metadata.annotations[contract().index_key("main")] = "no index";
  EXPECT_EQ(claimed(junk), "nothing");
}

struct DriftCase {
  const char* core;
  const char* memory;
  const char* cards;
  const char* claimed;
};

TEST(ClaimOf, CardsAreThoseOfTheAnnotationOrThereIsDrift) {
  const DriftCase cases[] = {
      {"30", "1024", "3", "none: 3"},
      {"200", "", "0,2", "none: 0,2"},
      {"1k", "8k", "0,1,2,3,4,5,6,7,8,9", "none: 0,1,2,3,4,5,6,7,8,9"},
      // Less memory than any --min-memory-mib: the pod runs nevertheless.
      {"30", "1", "3", "none: 3"},
      {"30", "1024", "", "BindingWithoutCards"},
      {"30", "1024", "three", "BindingWithoutCards"},
      {"30", "1024", "-1", "BindingWithoutCards"},
      {"30", "1024", "99999999999999999999", "BindingWithoutCards"},
      // The annotation with the number of cards may have been edited after the pod was bound.
      {"30", "1024", "0,1", "ChangedAnnotations: 0,1"},
      {"30", "1025", "0,1", "BindingWithoutCards"},
      {"200", "", "0", "BindingWithoutCards"},
      {"200", "", "2,0", "BindingWithoutCards"},
      {"30", "", "0", "BindingWithoutCards"},
      {"", "1024", "0", "BindingWithoutCards"},
      {"150", "1024", "0", "BindingWithoutCards"},
      {"0.5", "1024", "0", "BindingWithoutCards"},
      {"many", "1024", "0", "BindingWithoutCards"},
      {"-30", "1024", "0", "BindingWithoutCards"},
      {"30", "4Ei", "0", "BindingWithoutCards"},
      {"9E", "", "0", "BindingWithoutCards"},
  };
  for (const DriftCase& c : cases)
    EXPECT_EQ(claimed(placed_pod(c.core, c.memory, c.cards)), c.claimed)
        << c.core << " " << c.memory << " on " << c.cards;
}

TEST(ClaimOf, PodWithoutAnnotationsIsDrift) {
  kube::Pod pod = pod_of("30", "1024");
  EXPECT_EQ(claimed(pod), "BindingWithoutCards");
  pod.metadata.annotations[contract().assumed] = "true";
  EXPECT_EQ(claimed(pod), "BindingWithoutCards");
  pod.metadata.annotations[contract().index_key("other")] = "0";
  EXPECT_EQ(claimed(pod), "BindingWithoutCards");
}

TEST(ClaimOf, DriftHasADetail) {
  EXPECT_THAT(claim_of(placed_pod("30", "1024", "three"), contract())->drift_detail,
              HasSubstr(contract().index_key("main")));
  EXPECT_THAT(claim_of(placed_pod("30", "", "0"), contract())->drift_detail, HasSubstr("main"));
  EXPECT_EQ(claim_of(placed_pod("30", "1024", "0"), contract())->drift_detail, "");
}

TEST(ClaimOf, DriftSentenceIsBounded) {
  kube::Pod pod = placed_pod("30", "", "0");
  pod.containers[0].name.assign(100'000, 'x');
  EXPECT_LE(claim_of(pod, contract())->drift_detail.size(), kKeptSentenceBytesMax);
}

TEST(ClaimOf, EveryContainerHasItsCards) {
  kube::Pod pod = placed_pod("30", "1024", "3");
  pod.init_containers = {container("init", "50", "512")};
  pod.containers.push_back(container("none", "", ""));
  pod.containers.push_back(container("side", "100", ""));
  pod.metadata.annotations[contract().index_key("init")] = "3";
  pod.metadata.annotations[contract().index_key("side")] = "1";
  EXPECT_EQ(claimed(pod), "none: 3 | 3 | 1");
  pod.metadata.annotations.erase(contract().index_key("init"));
  EXPECT_EQ(claimed(pod), "BindingWithoutCards");
}

TEST(ClaimOf, AmountOnlyInRequestsCounts) {
  kube::Pod pod = placed_pod("", "", "0");
  pod.containers[0].requests[contract().core_resource] = "100";
  EXPECT_EQ(claimed(pod), "none: 0");
}

TEST(ClaimOf, SelectorsAndPolicyAreNotRead) {
  kube::Pod pod = placed_pod("30", "1024", "3");
  for (const std::string& key :
       {contract().policy, contract().gpu_model, contract().gpu_model_exclude, contract().gpu_uuid,
        contract().gpu_uuid_exclude, contract().gpu_links})
    pod.metadata.annotations[key] = ",,,";
  EXPECT_EQ(claimed(pod), "none: 3");
  EXPECT_TRUE(claim_of(pod, contract())->request.selector.empty());
}

TEST(ClaimOf, HasWhatPreemptionUses) {
  kube::Pod pod = placed_pod("30", "1024", "3");
  pod.priority = 7;
  pod.start_time = "2026-11-21T08:00:00Z";
  pod.metadata.labels["app"] = "train";
  const Claim claim = *claim_of(pod, contract());
  EXPECT_EQ(claim.pod, (PodRef{"team", "a"}));
  EXPECT_EQ(claim.uid, PodUid("uid-a"));
  EXPECT_EQ(claim.node, NodeName("n1"));
  EXPECT_EQ(claim.priority, 7);
  EXPECT_EQ(claim.start_time, "2026-11-21T08:00:00Z");
  EXPECT_EQ(claim.labels, pod.metadata.labels);
}

// --- nodes ---------------------------------------------------------------------------------------

kube::Node node_with(const char* core, const char* memory) {
  kube::Node node;
  node.metadata.name = "n1";
  if (*core != 0) node.capacity[contract().core_resource] = core;
  if (*memory != 0) node.capacity[contract().memory_resource] = memory;
  return node;
}

// "0=1000 1=1000!", "!" for unhealthy; or the problem.
std::string cards_text(const kube::Node& node) {
  const NodeFacts facts = node_facts_of(node, contract());
  if (!facts.problem.empty()) return "problem" + std::string(facts.cards.empty() ? "" : " + cards");
  std::string text;
  for (const CardFacts& card : facts.cards) {
    if (!text.empty()) text += " ";
    text += std::to_string(card.index.value()) + "=" + std::to_string(card.memory.value());
    if (!card.healthy()) text += "!";
  }
  return text;
}

struct CapacityCase {
  const char* core;
  const char* memory;
  const char* cards;
};

TEST(NodeFactsOf, CapacityWithoutTheAnnotationMeansEqualCards) {
  const CapacityCase cases[] = {
      {"", "", ""},
      {"0", "1000", ""},
      {"", "1000", ""},
      {"200", "2000", "0=1000 1=1000"},
      {"200", "2001", "0=1000 1=1000"},
      {"250", "2000", "0=1000 1=1000"},
      {"100", "", "0=0"},
      {"1k", "10k", "0=1000 1=1000 2=1000 3=1000 4=1000 5=1000 6=1000 7=1000 8=1000 9=1000"},
      {"50", "1000", "problem"},
      {"1M", "1000", "problem"},
      {"-100", "1000", "problem"},
      {"100.5", "1000", "problem"},
      {"100", "many", "problem"},
      {"100", "4Ei", "problem"},
  };
  for (const CapacityCase& c : cases)
    EXPECT_EQ(cards_text(node_with(c.core, c.memory)), c.cards) << c.core << " / " << c.memory;
}

// The annotation follows, and names other cards perhaps.
TEST(NodeFactsOf, CapacityMeansNoCardsBesideThePluginOfMgpu) {
  kube::Node node = node_with("200", "2000");
  node.conditions = {{"Ready", "True", "", ""}};
  EXPECT_EQ(cards_text(node), "0=1000 1=1000");
  EXPECT_TRUE(node_facts_of(node, contract()).by_capacity);
  node.conditions.push_back({"MGPUReady", "False", "", ""});
  EXPECT_EQ(cards_text(node), "");
}

TEST(NodeFactsOf, AnnotationHasPrecedenceOverCapacity) {
  kube::Node node = node_with("200", "2000");
  node.metadata.annotations[contract().node_cards] =
      R"({"version":1,"cards":[
        {"index":5,"uuid":"GPU-5","model":"L4","memoryMiB":24000,"health":"Xid79"},
        {"index":2,"uuid":"GPU-2","model":"H100","memoryMiB":80000,"health":"Healthy"}]})";
  EXPECT_EQ(cards_text(node), "2=80000 5=24000!");
  const NodeFacts facts = node_facts_of(node, contract());
  EXPECT_EQ(facts.name, NodeName("n1"));
  EXPECT_EQ(facts.cards[0].uuid, CardUuid("GPU-2"));
  EXPECT_EQ(facts.cards[0].model, "H100");
}

TEST(NodeFactsOf, UnreadableAnnotationIsAProblem) {
  for (const char* list : {"", "{", "[]", R"({"version":2,"cards":[]})", R"({"version":1})"}) {
    kube::Node node = node_with("200", "2000");
    node.metadata.annotations[contract().node_cards] = list;
    EXPECT_EQ(cards_text(node), "problem") << list;
    EXPECT_THAT(node_facts_of(node, contract()).problem, HasSubstr(contract().node_cards));
  }
}

TEST(NodeFactsOf, HasTheLinksOfTheAnnotation) {
  kube::Node node;
  node.metadata.annotations[contract().node_cards] =
      R"({"version":1,"links":"C","cards":[
        {"index":5,"uuid":"GPU-5","model":"L4","memoryMiB":24000,"health":"Healthy","numa":1},
        {"index":2,"uuid":"GPU-2","model":"L4","memoryMiB":24000,"health":"Healthy"}]})";
  const NodeFacts facts = node_facts_of(node, contract());
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.links.between(0, 1), nvlinks(12));
  EXPECT_EQ(facts.cards.at(1).numa, 1);
  node.metadata.annotations[contract().node_cards] = R"({"version":1,"links":"CC","cards":[]})";
  EXPECT_THAT(node_facts_of(node, contract()).problem,
              HasSubstr("links must have 0 characters for 0 cards"));
}

TEST(NodeFactsOf, HasTheProfileAndTheComputeOfTheAnnotation) {
  kube::Node node;
  const std::vector<CardFacts> cards{{.index = CardIndex(0),
                                      .uuid = CardUuid("GPU-a"),
                                      .model = "V100",
                                      .memory = MiB(1000),
                                      .core = Percent(300)}};
  const NodeProfile profile{.name = "infer", .policy = "spread/binpack"};
  node.metadata.annotations[contract().node_cards] = format_node_cards(cards, profile);
  const NodeFacts facts = node_facts_of(node, contract());
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.profile, profile);
  EXPECT_EQ(facts.cards, cards);
}

TEST(NodeFactsOf, APolicyThatCannotBeUsedIsAProblemOfTheProfile) {
  const auto profile_of = [](const std::string& policy) {
    kube::Node node;
    node.metadata.annotations[contract().node_cards] =
        format_node_cards({}, {.name = "infer", .policy = policy});
    return node_facts_of(node, contract()).profile;
  };
  EXPECT_THAT(profile_of("best").problem, HasSubstr("profile \"infer\": policy must be"));
  EXPECT_EQ(profile_of("best").policy, "");
  EXPECT_THAT(profile_of("fgd").problem,
              HasSubstr("published policies are only in mgpu-sim trace"));
  EXPECT_EQ(profile_of("binpack").problem, "");
}

TEST(NodeFactsOf, EmptyListMeansNoCards) {
  kube::Node node = node_with("200", "2000");
  node.metadata.annotations[contract().node_cards] = R"({"version":1,"cards":[]})";
  EXPECT_EQ(cards_text(node), "");
}

TEST(NodeFactsOf, ProblemIsBounded) {
  kube::Node node = node_with("200", "2000");
  node.metadata.annotations[contract().node_cards] = std::string(1'000'000, '[');
  EXPECT_LE(node_facts_of(node, contract()).problem.size(), kKeptSentenceBytesMax);
}

}  // namespace
}  // namespace mgpu::extender
