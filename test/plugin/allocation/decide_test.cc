#include "plugin/allocation/decide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace mgpu::plugin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Reason = RefusalReason;

const std::string kDomain(kDefaultResourceDomain);

const Contract& contract() {
  static const Contract value = Contract::for_domain(kDefaultResourceDomain).value();
  return value;
}

CardFacts card(std::int32_t index, std::int64_t memory, const std::string& health = "Healthy") {
  return {.index = CardIndex(index),
          .uuid = CardUuid("GPU-" + std::to_string(index)),
          .model = "V100",
          .memory = MiB(memory),
          .health = health};
}

DeviceSet devices(std::int64_t count, std::int64_t first = 0) {
  std::vector<std::string> ids;
  for (std::int64_t n = first; n < first + count; ++n) ids.push_back(core_device_id(n));
  return DeviceSet::of(ids).value();
}

Record record(std::int64_t count, std::int64_t first = 0) {
  Record one;
  one.devices = devices(count, first);
  one.id = allocation_id(one.devices, "aa");
  return one;
}

kube::Container container(const std::string& name, std::int64_t core, std::int64_t memory) {
  kube::Container one;
  one.name = name;
  if (core > 0) one.limits[kDomain + "/mgpu-core"] = std::to_string(core);
  if (memory > 0) one.limits[kDomain + "/mgpu-memory"] = std::to_string(memory);
  return one;
}

kube::Pod pod(std::vector<kube::Container> containers,
              const std::map<std::string, std::string>& cards) {
  kube::Pod one;
  one.metadata.name_space = "a";
  one.metadata.name = "x";
  one.metadata.uid = "u1";
  one.node_name = "n1";
  one.containers = std::move(containers);
  for (const auto& [name, indices] : cards) {
    one.metadata.annotations[contract().index_key(name)] = indices;
  }
  return one;
}

// Four free cards of 32 GiB.
NodeState node(std::vector<Record> bound = {}) {
  return {NodeName("n1"),
          {card(0, 32510), card(1, 32510), card(2, 32510), card(3, 32510)},
          std::move(bound)};
}

Record held(const char* pod_name, std::int32_t index, Share share,
            ContainerKind kind = ContainerKind::kApp, std::int32_t position = 0) {
  Record one = record(share.core.value(), 1000 + index);
  one.owner = Owner{{"a", pod_name}, PodUid(std::string("uid-") + pod_name), "app", kind, position};
  one.cards = {{CardIndex(index), CardUuid("GPU-" + std::to_string(index)), share}};
  return one;
}

Identity listed(const Record& record, const std::string& container) {
  return {record.id, PodRef{"a", "x"}, PodUid(), container};
}

Decided<Record> decided(const kube::Pod& pod, const Record& record, const std::string& name = "app",
                        const NodeState& on = node()) {
  return decide(listed(record, name), record, pod, on, contract());
}

Refusal refusal(const Decided<Record>& decided) {
  return decided ? Refusal{Reason::kNotReady, "not refused"} : decided.error();
}

TEST(Decide, GrantsAShareOfTheAnnotatedCard) {
  const auto got = decided(pod({container("app", 30, 1024)}, {{"app", "2"}}), record(30));
  EXPECT_EQ(got->owner, (Owner{{"a", "x"}, PodUid("u1"), "app", ContainerKind::kApp, 0}));
  EXPECT_THAT(got->cards,
              ElementsAre(CardGrant{CardIndex(2), CardUuid("GPU-2"), {Percent(30), MiB(1024)}}));
}

TEST(Decide, GrantsWholeCardsWithAllTheirMemory) {
  NodeState on = node();
  on.cards[3] = card(3, 16000);
  const auto got =
      decided(pod({container("app", 200, 0)}, {{"app", "0,3"}}), record(200), "app", on);
  EXPECT_THAT(got->cards,
              ElementsAre(CardGrant{CardIndex(0), CardUuid("GPU-0"), {Percent(100), MiB(32510)}},
                          CardGrant{CardIndex(3), CardUuid("GPU-3"), {Percent(100), MiB(16000)}}));
}

TEST(Decide, SplitsARequestOverSeveralCards) {
  auto one = pod({container("app", 60, 2048)}, {{"app", "1,2"}});
  one.metadata.annotations[contract().container_multiple_gpu] = "2";
  const auto got = decided(one, record(60));
  EXPECT_THAT(got->cards,
              ElementsAre(CardGrant{CardIndex(1), CardUuid("GPU-1"), {Percent(30), MiB(1024)}},
                          CardGrant{CardIndex(2), CardUuid("GPU-2"), {Percent(30), MiB(1024)}}));
}

TEST(Decide, EachContainerGetsItsOwnCards) {
  const auto two =
      pod({container("b", 50, 1000), container("c", 40, 2000)}, {{"b", "1"}, {"c", "3"}});
  EXPECT_EQ(decided(two, record(50), "b")->cards.front().index, CardIndex(1));
  const auto second = decided(two, record(40), "c");
  EXPECT_EQ(second->cards.front().index, CardIndex(3));
  EXPECT_EQ(second->owner->position, 1);
}

TEST(Decide, FillsACardToTheLastPercentAndNoFurther) {
  const auto one = pod({container("app", 20, 8000)}, {{"app", "0"}});
  EXPECT_TRUE(decided(one, record(20), "app", node({held("y", 0, {Percent(80), MiB(24510)})})));
  const struct {
    Share other;
    const char* others;
  } cases[] = {{{Percent(81), MiB(1000)}, ", of which pods a/y use 81 % and 1000 MiB"},
               {{Percent(10), MiB(24511)}, ", of which pods a/y use 10 % and 24511 MiB"}};
  for (const auto& c : cases) {
    const auto got = refusal(decided(one, record(20), "app", node({held("y", 0, c.other)})));
    EXPECT_EQ(got.reason, Reason::kFullCard);
    EXPECT_TRUE(got.transient) << "the other pod may be ending";
    EXPECT_THAT(got.message,
                testing::AllOf(HasSubstr("pod a/x is assigned 20 % and 8000 MiB of card 0 (GPU-0)"),
                               HasSubstr(c.others), HasSubstr("delete the pod")));
  }
}

// As in Kubernetes, init containers run alone, sidecars and app containers together.
TEST(Decide, CountsInitContainersOfOtherPodsAsKubernetesDoes) {
  const Share most{Percent(70), MiB(1000)};
  const auto one = pod({container("app", 30, 1000)}, {{"app", "0"}});
  const auto init = held("y", 0, most, ContainerKind::kInit, 0);
  const auto app = held("y", 0, most, ContainerKind::kApp, 1);
  EXPECT_TRUE(decided(one, record(30), "app", node({init, app})));
  const auto sidecar = held("y", 0, {Percent(1), MiB(1)}, ContainerKind::kSidecar, 2);
  EXPECT_EQ(refusal(decided(one, record(30), "app", node({init, app, sidecar}))).reason,
            Reason::kFullCard);
}

TEST(Decide, CountsAllContainersOfThePod) {
  const auto two =
      pod({container("b", 60, 1000), container("c", 60, 1000)}, {{"b", "1"}, {"c", "1"}});
  const auto got = refusal(decided(two, record(60), "b"));
  EXPECT_EQ(got.reason, Reason::kFullCard);
  EXPECT_THAT(got.message, HasSubstr("pod a/x is assigned 120 % and 2000 MiB of card 1"));
}

TEST(Decide, IgnoresItsOwnShareOfAnEarlierStart) {
  const auto one = pod({container("app", 100, 0)}, {{"app", "0"}});
  const auto first = decided(one, record(100)).value();
  EXPECT_TRUE(decided(one, first, "app", node({first})));
}

TEST(Decide, RefusesInvalidPodsWithOneSentence) {
  const kube::Pod good = pod({container("app", 30, 1024)}, {{"app", "2"}});
  kube::Pod elsewhere = good;
  elsewhere.node_name = "n2";
  const struct {
    const char* what;
    kube::Pod pod;
    Record record;
    Reason reason;
    bool transient;
    const char* sentence;
  } cases[] = {
      {"bound by hand", pod({container("app", 30, 1024)}, {}), record(30), Reason::kNoCards, true,
       "so it was not bound by mgpu-extender; delete it"},
      {"a card that does not exist", pod({container("app", 30, 1024)}, {{"app", "7"}}), record(30),
       Reason::kNoSuchCard, false,
       "is assigned card 7, and this node has cards 0, 1, 2, 3; delete the pod"},
      {"an annotation that does not parse", pod({container("app", 30, 1024)}, {{"app", "x"}}),
       record(30), Reason::kBadCards, false, "gpu-index-container-app"},
      {"another container's annotation", pod({container("app", 30, 1024)}, {{"other", "1"}}),
       record(30), Reason::kBadCards, false, "gpu-index-container-app is missing"},
      {"too many cards", pod({container("app", 30, 1024)}, {{"app", "0,1"}}), record(30),
       Reason::kBadCards, false, "must have 1 card, as the container requests"},
      {"a request that the extender refuses", pod({container("app", 30, 0)}, {{"app", "0"}}),
       record(30), Reason::kBadCards, false, "and no mgpu-memory"},
      {"another number of devices than requested", good, record(40), Reason::kUnknownContainer,
       false, "requests 30 devices, but kubelet allocated 40"},
      {"a container without cards", pod({container("app", 0, 0)}, {{"app", "2"}}), record(30),
       Reason::kUnknownPod, false, "requests no cards"},
      {"on another node", elsewhere, record(30), Reason::kUnknownPod, true, "this is node \"n1\""},
  };
  for (const auto& c : cases) {
    const auto got = refusal(decided(c.pod, c.record));
    EXPECT_EQ(got.reason, c.reason) << c.what << ": " << got.message;
    EXPECT_EQ(got.transient, c.transient) << c.what;
    EXPECT_THAT(got.message, HasSubstr(c.sentence)) << c.what;
  }
}

TEST(Decide, RefusesAnUnhealthyCard) {
  NodeState on = node();
  on.cards[2] = card(2, 32510, "XID 79");
  const auto got =
      refusal(decided(pod({container("app", 30, 1024)}, {{"app", "2"}}), record(30), "app", on));
  EXPECT_EQ(got.reason, Reason::kUnhealthyCard);
  EXPECT_THAT(got.message, HasSubstr("card 2 (GPU-2), which is not healthy: XID 79"));
}

TEST(Decide, RefusesAnotherPodOfTheSameName) {
  const auto one = pod({container("app", 30, 1024)}, {{"app", "2"}});
  const Record fresh = record(30);
  const Identity other{fresh.id, PodRef{"a", "x"}, PodUid("u0"), "app"};
  EXPECT_EQ(refusal(decide(other, fresh, one, node(), contract())).reason, Reason::kUnknownPod);
  Record before = decided(one, fresh).value();
  before.owner->uid = PodUid("u0");
  EXPECT_EQ(refusal(decided(one, before)).reason, Reason::kUnknownPod);
}

TEST(Decide, RefusesOtherCardsThanBefore) {
  const auto before =
      decided(pod({container("app", 30, 1024)}, {{"app", "2"}}), record(30)).value();
  EXPECT_EQ(decided(pod({container("app", 30, 1024)}, {{"app", "2"}}), before).value(), before);
  const auto got = refusal(decided(pod({container("app", 30, 1024)}, {{"app", "3"}}), before));
  EXPECT_EQ(got.reason, Reason::kOtherCards);
  EXPECT_THAT(got.message, HasSubstr("was started with cards GPU-2, and its annotation now names "
                                     "GPU-3"));
}

TEST(DecideAgain, GrantsTheSameCards) {
  const auto before =
      decided(pod({container("app", 30, 1024)}, {{"app", "2"}}), record(30)).value();
  EXPECT_EQ(decide_again(before, node({before})).value(), before);
}

TEST(DecideAgain, RefusesALostUnhealthyOrFullCard) {
  const auto before =
      decided(pod({container("app", 30, 1024)}, {{"app", "2"}}), record(30)).value();
  NodeState lost = node();
  lost.cards.pop_back();
  lost.cards.pop_back();
  EXPECT_EQ(refusal(decide_again(before, lost)).reason, Reason::kNoSuchCard);
  NodeState unhealthy = node();
  unhealthy.cards[2] = card(2, 32510, "Lost");
  EXPECT_EQ(refusal(decide_again(before, unhealthy)).reason, Reason::kUnhealthyCard);
  const NodeState full = node({held("y", 2, {Percent(80), MiB(1000)})});
  EXPECT_EQ(refusal(decide_again(before, full)).reason, Reason::kFullCard);
}

TEST(RefusalReasons, HaveDistinctNames) {
  std::map<std::string_view, int> seen;
  for (int i = 0; i <= static_cast<int>(Reason::kNotReady); ++i) {
    ++seen[to_string(static_cast<Reason>(i))];
    ++seen[event_reason(static_cast<Reason>(i))];
  }
  EXPECT_EQ(seen.size(), 18U);
}

}  // namespace
}  // namespace mgpu::plugin
