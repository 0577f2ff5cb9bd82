// decide() and decide_again() on small random nodes: a container gets exactly its annotated cards,
// and the shares of all pods never exceed a card.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "plugin/allocation/decide.h"

namespace mgpu::plugin {
namespace {

using Reason = RefusalReason;

constexpr std::uint32_t kNodes = 150;
constexpr std::int64_t kMemory = 1000;
const std::string kDomain(kDefaultResourceDomain);

const Contract& contract() {
  static const Contract value = Contract::for_domain(kDefaultResourceDomain).value();
  return value;
}

struct TestContainer {
  std::string name;
  ContainerKind kind = ContainerKind::kApp;
  std::vector<CardIndex> cards;
  Share per_card;
  bool whole = false;
};

struct TestNode {
  NodeState node;
  std::vector<kube::Pod> pods;
  std::vector<std::vector<TestContainer>> containers;  // of each pod, in the order of a GpuRequest
};

class RandomNode {
 public:
  explicit RandomNode(std::uint32_t seed) : random_(seed) {}
  int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  bool one_in(int chances) { return number(chances) == 0; }

  TestNode make() {
    TestNode test;
    test.node.name = NodeName("n1");
    const int cards = 1 + number(3);
    for (int i = 0; i < cards; ++i)
      test.node.cards.push_back({.index = CardIndex(2 * i),
                                 .uuid = CardUuid("GPU-" + std::to_string(i)),
                                 .model = "V100",
                                 .memory = MiB(kMemory),
                                 .health = one_in(15) ? "XID 79" : std::string(kHealthy),
                                 .core = Percent(one_in(3) ? 100 + 50 * number(5) : 100)});
    for (int i = 0; i < 5; ++i) {
      test.containers.push_back(containers(cards));
      test.pods.push_back(pod(i, test.containers.back()));
    }
    return test;
  }

 private:
  std::vector<TestContainer> containers(int cards) {
    std::vector<TestContainer> all;
    for (int i = 1 + number(3); i > 0; --i) {
      TestContainer one;
      one.kind = static_cast<ContainerKind>(one_in(2) ? 2 : number(3));
      one.whole = one_in(6);
      one.per_card = one.whole ? Share{kWholeCard, MiB(kMemory)}
                               : Share{Percent(10 + 10 * number(6)), MiB(100 + 100 * number(6))};
      for (int card = 0; card < cards; ++card)
        if (one_in(2)) one.cards.push_back(CardIndex(2 * card));
      if (one.cards.empty()) one.cards.push_back(CardIndex(2 * number(cards + 1)));
      // Only app containers can split a share over several cards.
      if (one.kind != ContainerKind::kApp && !one.whole) one.cards.resize(1);
      all.push_back(one);
    }
    const auto is_app = [](const TestContainer& one) { return one.kind == ContainerKind::kApp; };
    std::ranges::stable_partition(all, std::not_fn(is_app));
    for (std::size_t i = 0; i < all.size(); ++i) all[i].name = "c" + std::to_string(i);
    return all;
  }

  // Init containers and sidecars come first, then app containers.
  static kube::Pod pod(int number, const std::vector<TestContainer>& all) {
    kube::Pod pod;
    pod.metadata.name_space = "a";
    pod.metadata.name = "p" + std::to_string(number);
    pod.metadata.uid = "u" + std::to_string(number);
    pod.node_name = "n1";
    std::string counts;
    for (const TestContainer& one : all) {
      const auto cards = static_cast<std::int64_t>(one.cards.size());
      kube::Container container;
      container.name = one.name;
      container.restart_always = one.kind == ContainerKind::kSidecar;
      container.limits[kDomain + "/mgpu-core"] = std::to_string(one.per_card.core.value() * cards);
      if (!one.whole)
        container.limits[kDomain + "/mgpu-memory"] =
            std::to_string(one.per_card.memory.value() * cards);
      const bool app = one.kind == ContainerKind::kApp;
      if (app) counts += (counts.empty() ? "" : ",") + std::to_string(cards);
      (app ? pod.containers : pod.init_containers).push_back(container);
      pod.metadata.annotations[contract().index_key(one.name)] = format_card_indices(one.cards);
    }
    if (!counts.empty()) pod.metadata.annotations[contract().container_multiple_gpu] = counts;
    return pod;
  }

  std::mt19937 random_;
};

Record record_for(const kube::Pod& pod, const TestContainer& container, int number) {
  std::vector<std::string> ids;
  const auto core =
      container.per_card.core.value() * static_cast<std::int64_t>(container.cards.size());
  for (std::int64_t n = 0; n < core; ++n) ids.push_back(core_device_id(n + 1000 * number));
  Record record;
  record.devices = DeviceSet::of(ids).value();
  record.id = allocation_id(record.devices, "x" + pod.metadata.uid);
  return record;
}

// A second implementation of KEP-753 for the containers of one pod in spec order.
Share held_by(const std::vector<TestContainer>& pod, const std::vector<bool>& counts,
              CardIndex card, Percent all_core) {
  Share staying;
  Share most;
  for (std::size_t i = 0; i < pod.size(); ++i) {
    if (!counts[i] || std::ranges::find(pod[i].cards, card) == pod[i].cards.end()) continue;
    Share share = pod[i].per_card;
    if (share.core == kWholeCard) share.core = all_core;
    if (pod[i].kind == ContainerKind::kInit)
      most = max_of(most, staying + share);
    else
      staying += share;
  }
  return max_of(most, staying);
}

struct Started {
  std::size_t pod;
  std::size_t container;
};

// The shares of a card: of `whole_pod` all containers count, of the other pods the started ones.
Share held_with(const TestNode& test, const std::vector<Started>& started, std::size_t whole_pod,
                const CardFacts& card) {
  Share sum;
  for (std::size_t pod = 0; pod < test.pods.size(); ++pod) {
    std::vector<bool> counts(test.containers[pod].size(), pod == whole_pod);
    for (const Started& one : started)
      if (one.pod == pod) counts[one.container] = true;
    sum += held_by(test.containers[pod], counts, card.index, card.core);
  }
  return sum;
}

const CardFacts* find(const NodeState& node, CardIndex index) {
  const auto at = std::ranges::find(node.cards, index, &CardFacts::index);
  return at == node.cards.end() ? nullptr : &*at;
}

// The expected reason: that of the first card which has one.
std::optional<Reason> expected_refusal(const TestNode& test, const std::vector<Started>& started,
                                       const Started& next) {
  for (const CardIndex index : test.containers[next.pod][next.container].cards) {
    const CardFacts* card = find(test.node, index);
    if (card == nullptr) return Reason::kNoSuchCard;
    if (!card->healthy()) return Reason::kUnhealthyCard;
    const Share held = held_with(test, started, next.pod, *card);
    if (!held.fits_in({card->core, card->memory})) return Reason::kFullCard;
  }
  return std::nullopt;
}

std::vector<CardGrant> expected_cards(const TestNode& test, const TestContainer& container) {
  std::vector<CardGrant> cards;
  for (const CardIndex index : container.cards)
    cards.push_back({index, find(test.node, index)->uuid, container.per_card});
  return cards;
}

// Starts every container of the pods in turn. Those that may start keep their cards.
template <class Check>
void start_all(TestNode& test, const Check& check) {
  std::vector<Started> started;
  for (std::size_t pod = 0; pod < test.pods.size(); ++pod) {
    for (std::size_t i = 0; i < test.containers[pod].size(); ++i) {
      const TestContainer& container = test.containers[pod][i];
      const Record record = record_for(test.pods[pod], container, static_cast<int>(10 * pod + i));
      const Identity identity{record.id, test.pods[pod].ref(), PodUid(), container.name};
      const auto got = decide(identity, record, test.pods[pod], test.node, contract());
      check(Started{pod, i}, started, got);
      if (!got) continue;
      started.push_back({pod, i});
      test.node.bound.push_back(*got);
    }
  }
}

TEST(DecideProperty, GrantsWhatIsAnnotatedExactlyWhereTheCardsHaveRoom) {
  std::map<std::optional<Reason>, int> seen;
  for (std::uint32_t seed = 0; seed < kNodes; ++seed) {
    TestNode test = RandomNode(seed).make();
    start_all(test, [&](const Started& next, const std::vector<Started>& started,
                        const Decided<Record>& got) {
      const auto refusal = expected_refusal(test, started, next);
      ++seen[refusal];
      ASSERT_EQ(got.has_value(), !refusal.has_value()) << "seed " << seed;
      if (!got) {
        ASSERT_EQ(got.error().reason, *refusal) << "seed " << seed;
        return;
      }
      const TestContainer& container = test.containers[next.pod][next.container];
      ASSERT_EQ(got->cards, expected_cards(test, container)) << "seed " << seed;
      ASSERT_EQ(got->owner->pod, test.pods[next.pod].ref());
      ASSERT_EQ(got->owner->container, container.name);
      ASSERT_EQ(got->owner->kind, container.kind);
      ASSERT_EQ(got->owner->position, static_cast<std::int32_t>(next.container));
    });
  }
  EXPECT_GT(seen[std::nullopt], 100);
  EXPECT_GT(seen[Reason::kFullCard], 100);
  EXPECT_GT(seen[Reason::kUnhealthyCard], 10);
  EXPECT_GT(seen[Reason::kNoSuchCard], 10);
}

TEST(DecideProperty, NoCardIsEverOverItsCapacity) {
  for (std::uint32_t seed = 0; seed < kNodes; ++seed) {
    TestNode test = RandomNode(seed).make();
    std::vector<Started> all;
    start_all(test,
              [&](const Started& next, const std::vector<Started>&, const Decided<Record>& got) {
                if (got) all.push_back(next);
              });
    for (const CardFacts& card : test.node.cards) {
      const Share held = held_with(test, all, test.pods.size(), card);
      ASSERT_TRUE(held.fits_in({card.core, card.memory})) << "seed " << seed;
    }
  }
}

// A restart with or without the API server results in the same record, even if other pods started
// meanwhile. If annotations exceed a card, others may have taken the room of containers of the pod
// that have not started. Then the whole pod is refused, as at its first start.
TEST(DecideProperty, RestartedContainersKeepTheirCards) {
  int refused = 0;
  for (std::uint32_t seed = 0; seed < kNodes; ++seed) {
    TestNode test = RandomNode(seed).make();
    std::vector<Started> all;
    start_all(test,
              [&](const Started& next, const std::vector<Started>&, const Decided<Record>& got) {
                if (got) all.push_back(next);
              });
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Record& record = test.node.bound[i];
      const Identity identity{record.id, record.owner->pod, PodUid(), record.owner->container};
      const auto again = decide(identity, record, test.pods[all[i].pod], test.node, contract());
      const auto refusal = expected_refusal(test, all, all[i]);
      ASSERT_EQ(again.has_value(), !refusal.has_value()) << "seed " << seed;
      if (again) ASSERT_EQ(*again, record) << "seed " << seed;
      if (!again) ASSERT_EQ(again.error().reason, Reason::kFullCard) << "seed " << seed;
      refused += again ? 0 : 1;
      const auto alone = decide_again(record, test.node);
      ASSERT_TRUE(alone && *alone == record) << "seed " << seed;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace mgpu::plugin
