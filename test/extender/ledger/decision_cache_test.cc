// The cached decisions: they never change a result, only how often a policy is called.
#include "extender/ledger/decision_cache.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "extender/ledger/limits.h"
#include "extender/placement/holds.h"
#include "extender/placement/limits.h"
#include "extender/pricing/price_snapshot.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {
using test::at_ms;

int scored = 0;  // the number of nodes that a policy below has scored

Score any_card(const PlacementContext&, const Node&, const Card&, const Share&, const Share&) {
  return 0;
}

// Depends on all that a policy may use.
Score count_and_price(const PlacementContext& context, const Node& node,
                      const std::vector<CardHold>& pod) {
  ++scored;
  Score score = static_cast<Score>(pod.size()) + context.resources.cpu.value() +
                node.resources_used.cpu.value();
  if (context.price_snapshot != nullptr)
    score += static_cast<Score>(context.price_snapshot->version) * 1000;
  return score;
}

Score by_seed(const PlacementContext& context, const Node&, const std::vector<CardHold>&) {
  ++scored;
  return static_cast<Score>(context.tie_break_seed % 100);
}

const Policy kPriced{.name = "priced",
                     .score_card = any_card,
                     .score_node = count_and_price,
                     .ranks_pods_without_cards = true};
const Policy kSeeded{
    .name = "seeded", .score_card = any_card, .score_node = by_seed, .per_pod = true};

GpuRequest share_of(int core) {
  GpuRequest request;
  request.containers.push_back({.name = "c", .per_card = {Percent(core), MiB(10)}});
  return request;
}

PriceSnapshot snapshot_of(std::uint64_t version) {
  PriceSnapshot price_snapshot;
  price_snapshot.version = version;
  return price_snapshot;
}

void at_once(const std::function<void()>& computation) {
  computation();
}

// The number of nodes that `policy` scored.
int scored_for(Ledger& ledger, const PlacementContext& context, const Policy& policy,
               const std::vector<std::string_view>& names = {"n0", "n1", "n2"}) {
  scored = 0;
  ledger.decisions().score(names, context, {&policy, &policy}, at_ms(0));
  return scored;
}

class DecisionCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* node : {"n0", "n1", "n2"})
      ledger_.apply_node(test::facts_of(std::string(node) + ": 0[100/1000] 1[100/1000]"));
  }
  Ledger ledger_;
};

TEST_F(DecisionCacheTest, ScoresOnceForEqualRequests) {
  GpuRequest first = share_of(30);
  GpuRequest second = share_of(30);
  second.containers[0].name = "called differently";
  EXPECT_EQ(scored_for(ledger_, first, kPriced), 3);
  EXPECT_EQ(scored_for(ledger_, second, kPriced), 0);
}

TEST_F(DecisionCacheTest, ScoresEachRequest) {
  const GpuRequest request = share_of(30);
  const GpuRequest larger = share_of(40);
  GpuRequest selective = share_of(30);
  selective.selector.models_excluded = {"T4"};
  const PlacementContext with_host(request, {MilliCpu(1), MiB()}, 0, nullptr);
  for (const PlacementContext& context : {PlacementContext(request), PlacementContext(larger),
                                          PlacementContext(selective), with_host}) {
    EXPECT_EQ(scored_for(ledger_, context, kPriced), 3);
    EXPECT_EQ(scored_for(ledger_, context, kPriced), 0);
  }
  static const Policy kOther = kPriced;
  EXPECT_EQ(scored_for(ledger_, request, kOther), 3) << "another policy";
}

TEST_F(DecisionCacheTest, ScoresChangedNodesAgain) {
  const GpuRequest request = share_of(30);
  const PodUid uid("p");
  const std::vector<std::function<void()>> changes = {
      [&] { ledger_.apply_pod(test::bound_claim("p", "n1", "30/300", "0")); },
      [&] { ledger_.remove_pod(uid); },
      [&] {
        ledger_.apply_non_gpu({uid, NodeName("n1"), {MilliCpu(5), MiB()}});
      },
      [&] { ledger_.remove_pod(uid); },
      [&] { ledger_.forget(test::assume_id(ledger_, "p", "n1", "30/300")); },
      [&] {
        ledger_.reservations().expect(uid, NodeName("n1"), request, {{{CardIndex(0)}}}, at_ms(0),
                                      at_ms(9));
      },
      [&] { ledger_.reservations().end_expectation(uid); },
      [&] { ledger_.apply_node(test::facts_of("n1: 0[100/2000]")); }};
  scored_for(ledger_, request, kPriced);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    changes[i]();
    EXPECT_EQ(scored_for(ledger_, request, kPriced), 1) << "change " << i;
    EXPECT_EQ(scored_for(ledger_, request, kPriced), 0) << "change " << i;
  }
}

TEST_F(DecisionCacheTest, ScoresANodeInTheSlotOfAnother) {
  const GpuRequest request = share_of(30);
  scored_for(ledger_, request, kPriced);
  ledger_.remove_node(NodeName("n1"));
  ledger_.apply_node(test::facts_of("n3: 0[100/1000]"));
  EXPECT_EQ(scored_for(ledger_, request, kPriced, {"n0", "n1", "n2", "n3"}), 1);
}

TEST_F(DecisionCacheTest, ScoresAgainByAnotherSnapshot) {
  const GpuRequest request = share_of(30);
  const auto scored_by = [&](const PriceSnapshot* price_snapshot) {
    return scored_for(ledger_, PlacementContext(request, {}, 0, price_snapshot), kPriced);
  };
  const PriceSnapshot first = snapshot_of(1);
  const PriceSnapshot second = snapshot_of(2);
  EXPECT_EQ(scored_by(nullptr), 3);
  EXPECT_EQ(scored_by(&first), 3);
  EXPECT_EQ(scored_by(&first), 0);
  EXPECT_EQ(scored_by(&second), 3);
  EXPECT_EQ(scored_by(&first), 3);
}

TEST_F(DecisionCacheTest, ADecisionByAnEarlierSnapshotKeepsTheScores) {
  const GpuRequest request = share_of(30);
  const PriceSnapshot first = snapshot_of(1);
  const PriceSnapshot second = snapshot_of(2);
  EXPECT_EQ(scored_for(ledger_, PlacementContext(request, {}, 0, &second), kPriced), 3);
  EXPECT_EQ(scored_for(ledger_, PlacementContext(request, {}, 0, &first), kPriced), 3);
  EXPECT_EQ(scored_for(ledger_, PlacementContext(request, {}, 0, &second), kPriced), 0);
}

TEST_F(DecisionCacheTest, ScoresEveryTimeWithAPolicyThatUsesTheSeed) {
  const GpuRequest request = share_of(30);
  EXPECT_EQ(scored_for(ledger_, request, kSeeded), 3);
  EXPECT_EQ(scored_for(ledger_, request, kSeeded), 3);
}

TEST_F(DecisionCacheTest, EvictsTheRequestUsedLeastRecently) {
  for (int core = 1; core <= static_cast<int>(kRequestKeysMax); ++core)
    scored_for(ledger_, share_of(core), kPriced);
  EXPECT_EQ(scored_for(ledger_, share_of(1), kPriced), 0);
  EXPECT_EQ(scored_for(ledger_, share_of(99), kPriced), 3);
  EXPECT_EQ(scored_for(ledger_, share_of(1), kPriced), 0);
  EXPECT_EQ(scored_for(ledger_, share_of(2), kPriced), 3);
}

// --- prewarming ----------------------------------------------------------------------------------

class PrewarmTest : public DecisionCacheTest {
 protected:
  void SetUp() override {
    DecisionCacheTest::SetUp();
    scored_by(now_);
  }
  int scored_by(const PriceSnapshot& price_snapshot) {
    return scored_for(ledger_, PlacementContext(request_, {MilliCpu(7), MiB()}, 0, &price_snapshot),
                      kPriced);
  }
  // The number of nodes that were scored in advance.
  int prewarmed(const PriceSnapshot& price_snapshot, bool go_on = true) {
    scored = 0;
    ledger_.decisions().prewarm_scores(
        price_snapshot, [go_on] { return go_on; }, at_once);
    return scored;
  }

  const GpuRequest request_ = share_of(30);
  const PriceSnapshot now_ = snapshot_of(1);
  const PriceSnapshot next_ = snapshot_of(2);
};

TEST_F(PrewarmTest, TheFirstDecisionBySnapshotFindsTheScores) {
  EXPECT_EQ(prewarmed(next_), 3);
  EXPECT_EQ(scored_by(next_), 0);
}

TEST_F(PrewarmTest, TheScoresAreThoseOfTheSnapshot) {
  const auto scores_by = [&](const PriceSnapshot& price_snapshot) {
    const PlacementContext context(request_, {MilliCpu(7), MiB()}, 0, &price_snapshot);
    return ledger_.decisions().score(std::vector<std::string_view>{"n0", "n1"}, context,
                                     {&kPriced, &kPriced}, at_ms(0));
  };
  prewarmed(next_);
  const std::vector<Scored> expected = {{true, true, 0, 2008, 2008}, {true, true, 0, 2008, 2008}};
  EXPECT_EQ(scores_by(next_), expected);
}

TEST_F(PrewarmTest, TheCurrentSnapshotKeepsItsScores) {
  prewarmed(next_);
  EXPECT_EQ(scored_by(now_), 0);
  EXPECT_EQ(scored_by(next_), 0);
}

TEST_F(PrewarmTest, NodesThatChangeAfterwardsAreScored) {
  prewarmed(next_);
  ledger_.apply_pod(test::bound_claim("p", "n1", "30/300", "0"));
  EXPECT_EQ(scored_by(next_), 1);
}

TEST_F(PrewarmTest, DeletedNodesAreNotScored) {
  ledger_.apply_pod(test::bound_claim("p", "n1", "30/300", "0"));
  ledger_.remove_node(NodeName("n1"));  // its pod keeps the record
  ledger_.remove_node(NodeName("n2"));
  EXPECT_EQ(prewarmed(next_), 1);
}

TEST_F(PrewarmTest, AnotherSnapshotIsScored) {
  prewarmed(next_);
  EXPECT_EQ(scored_by(snapshot_of(3)), 3);
}

TEST_F(PrewarmTest, HasNoEffectWhereItIsToEnd) {
  EXPECT_EQ(prewarmed(next_, false), 3);
  EXPECT_EQ(scored_by(next_), 3);
}

TEST_F(PrewarmTest, ManyNodesAreScoredInSteps) {
  constexpr int kNodes = 1'000;
  std::vector<std::string> names;
  for (int i = 3; i < kNodes; ++i) names.push_back("n" + std::to_string(i));
  for (const std::string& name : names) ledger_.apply_node(test::facts_of(name + ": 0[100/1000]"));
  EXPECT_EQ(prewarmed(next_), kNodes);
  EXPECT_EQ(scored_for(ledger_, PlacementContext(request_, {MilliCpu(7), MiB()}, 0, &next_),
                       kPriced, {names.begin(), names.end()}),
            0);
}

TEST_F(PrewarmTest, RequestsWithoutUseAreSkippedInTheEnd) {
  for (int price_snapshot = 0; price_snapshot < kIdleRefreshesMax; ++price_snapshot) {
    EXPECT_EQ(prewarmed(snapshot_of(2)), 3) << "after " << price_snapshot;
  }
  EXPECT_EQ(prewarmed(snapshot_of(2)), 0);
  scored_by(next_);
  EXPECT_EQ(prewarmed(snapshot_of(3)), 3);
}

TEST_F(PrewarmTest, PoliciesThatUseTheSeedAreSkipped) {
  scored_for(ledger_, request_, kSeeded);
  EXPECT_EQ(prewarmed(next_), 3) << "of the other request";
}

// --- random changes and queries ------------------------------------------------------------------

class World {
 public:
  explicit World(std::uint32_t seed) : random_(seed) {}

  void step() {
    now_ms_ += pick(3);
    switch (pick(9)) {
      case 8:
        return next_snapshot();
      case 0:
        return ledger_.apply_node(random_facts());
      case 1:
        return pick(3) == 0 ? ledger_.remove_node(random_node()) : void();
      case 2:
        return ledger_.remove_pod(random_uid());
      case 3:
        return ledger_.apply_non_gpu({random_uid(), random_node(), random_resources()});
      case 4:
        return expect();
      default:
        return assume_or_show();
    }
  }

  // "" where the results are those without a cache.
  std::string difference() {
    const GpuRequest request = random_request();
    const PlacementContext context(request, random_resources(), random_(), random_snapshot());
    const PolicyChoice policy = random_policy();
    std::string difference;
    const auto reasons = ledger_.decisions().why_not(kNames, request, at_ms(now_ms_));
    const auto scores = ledger_.decisions().score(kNames, context, policy, at_ms(now_ms_));
    ledger_.reader().read(at_ms(now_ms_), [&](const View& view) {
      for (std::size_t i = 0; i < kNames.size(); ++i) {
        if (reasons[i] != direct_reason(view, kNames[i], request))
          difference += " fit of " + std::string(kNames[i]);
        if (scores[i] != direct_score(view, kNames[i], context, policy))
          difference += " score of " + std::string(kNames[i]);
      }
    });
    return difference;
  }

 private:
  static inline const std::vector<std::string_view> kNames = {"n2", "n0", "nobody",
                                                              "n3", "n1", "n2"};

  static std::optional<Reason> direct_reason(const View& view, std::string_view name,
                                             const GpuRequest& request) {
    const Node* node = view.find(name);
    SearchBudget budget{kPlacementStepsMax};
    return node == nullptr ? Reason::kNodeUnknown : why_not(*node, request, budget);
  }
  static Scored direct_score(const View& view, std::string_view name,
                             const PlacementContext& context, const PolicyChoice& policy) {
    const Node* node = view.find(name);
    if (node == nullptr) return {};
    SearchBudget budget{kPlacementStepsMax};
    const auto answer = place(*node, context, *policy.card, budget);
    const auto* placed = std::get_if<Placed>(&answer);
    if (placed == nullptr) return {};
    const auto held = holds(*node, context.request, placed->placement);
    const Score score = policy.node->score_node(context, *node, held);
    return {true, placed->beside_expected, 0, common_score(score), score};
  }

  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  NodeName random_node() { return NodeName("n" + std::to_string(pick(4))); }
  PodUid random_uid() { return PodUid("p" + std::to_string(pick(12))); }
  NodeResources random_resources() { return {MilliCpu(pick(3)), MiB(pick(2) * 100)}; }
  // Mostly the last one.
  const PriceSnapshot* random_snapshot() {
    if (snapshots_.empty() || pick(8) == 0) return nullptr;
    return pick(8) > 0 ? &snapshots_.back() : &snapshots_[random_() % snapshots_.size()];
  }
  void next_snapshot() {
    if (pick(8) > 0) return;
    PriceSnapshot price_snapshot = snapshot_of(snapshots_.size() + 1);
    const PriceSnapshot& next = snapshots_.emplace_back(std::move(price_snapshot));
    if (pick(3) > 0)
      ledger_.decisions().prewarm_scores(
          next, [] { return true; }, at_once);
  }
  PolicyChoice random_policy() {
    static constexpr const char* kNamed[] = {"binpack", "spread", "spread/binpack"};
    if (pick(2) == 0) return {&kPriced, pick(4) == 0 ? &kSeeded : &kPriced};
    const int named = pick(4);
    return named == 3 ? PolicyChoice{&kSeeded, &kSeeded} : *find_policy(kNamed[named]);
  }
  GpuRequest random_request() {
    GpuRequest request = share_of(5 * (1 + pick(20)));
    if (pick(3) == 0) request.containers.push_back(request.containers[0]);
    if (pick(8) == 0) request.containers.clear();
    if (pick(6) == 0) request.selector.models = {pick(2) == 0 ? "A100" : "T4"};
    return request;
  }
  // Often like those of the last node, for nodes of the same shape.
  NodeFacts random_facts() {
    if (pick(2) == 0) last_facts_ = new_facts();
    last_facts_.name = random_node();
    return last_facts_;
  }
  NodeFacts new_facts() {
    NodeFacts facts;
    facts.allocatable = random_resources();
    for (int index = 0; index < 3; ++index) {
      CardFacts& card = facts.cards.emplace_back();
      card.index = CardIndex(index);
      card.model = pick(2) == 0 ? "A100" : "T4";
      card.memory = MiB(1000);
      if (pick(6) == 0) card.health = "Xid79";
    }
    return facts;
  }
  void expect() {
    const GpuRequest request = share_of(30);
    ledger_.reservations().expect(random_uid(), random_node(), request, {{{CardIndex(pick(3))}}},
                                  at_ms(now_ms_), at_ms(now_ms_ + pick(20)));
  }
  void assume_or_show() {
    Claim claim;
    claim.uid = random_uid();
    claim.pod = {"d", claim.uid.str()};
    claim.node = random_node();
    claim.request = share_of(5 * (1 + pick(20)));
    claim.resources = random_resources();
    const auto answer = ledger_.assume(claim, kPriced, at_ms(now_ms_));
    const auto* assumed = std::get_if<Assumed>(&answer);
    if (pick(4) == 0) claim.drift = DriftKind::kBindingWithoutCards;
    if (assumed != nullptr && !claim.drift) claim.placement = assumed->placement;
    if (assumed != nullptr && pick(3) == 0) return ledger_.forget(assumed->id);
    if (pick(2) == 0 && (claim.placement || claim.drift)) ledger_.apply_pod(claim);
  }

  std::mt19937 random_;
  int now_ms_ = 100;
  std::deque<PriceSnapshot> snapshots_;
  NodeFacts last_facts_;
  Ledger ledger_;
};

class DecisionCacheProperty : public testing::TestWithParam<std::uint32_t> {};

TEST_P(DecisionCacheProperty, ResultsAreThoseWithoutACache) {
  World world(GetParam());
  for (int step = 0; step < 4000; ++step) {
    world.step();
    ASSERT_EQ(world.difference(), "") << "seed " << GetParam() << ", step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DecisionCacheProperty, testing::Range(1u, 9u));

}  // namespace
}  // namespace mgpu::extender
