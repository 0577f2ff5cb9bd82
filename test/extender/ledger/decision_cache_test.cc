// What the ledger keeps of decisions: never seen in an answer, only in who is asked again.
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

int asked = 0;  // how often a policy below was asked about a node

Score any_card(const PlacementContext&, const Node&, const Card&, const Share&, const Share&) {
  return 0;
}

// Goes by all that a policy may know of the pod.
Score count_and_price(const PlacementContext& context, const Node& node,
                      const std::vector<CardHold>& pod) {
  ++asked;
  Score score =
      static_cast<Score>(pod.size()) + context.host.cpu.value() + node.resources_used.cpu.value();
  if (context.price_snapshot != nullptr)
    score += static_cast<Score>(context.price_snapshot->version) * 1000;
  return score;
}

Score drawn(const PlacementContext& context, const Node&, const std::vector<CardHold>&) {
  ++asked;
  return static_cast<Score>(context.tie_break_seed % 100);
}

const Policy kPriced{.name = "priced",
                     .score_card = any_card,
                     .score_node = count_and_price,
                     .ranks_pods_without_cards = true};
const Policy kDrawn{.name = "drawn", .score_card = any_card, .score_node = drawn, .per_pod = true};

GpuRequest share_of(int core) {
  GpuRequest request;
  request.containers.push_back({.name = "c", .per_card = {Percent(core), MiB(10)}});
  return request;
}

PriceSnapshot market_of(std::uint64_t version) {
  PriceSnapshot price_snapshot;
  price_snapshot.version = version;
  return price_snapshot;
}

// How many nodes `policy` was asked about.
int asked_for(Ledger& ledger, const PlacementContext& context, const Policy& policy,
              const std::vector<std::string_view>& names = {"n0", "n1", "n2"}) {
  asked = 0;
  ledger.read(at_ms(0), [&](const View& view) { view.score(names, context, {&policy, &policy}); });
  return asked;
}

class ShapeMemoTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* node : {"n0", "n1", "n2"})
      ledger_.apply_node(test::facts_of(std::string(node) + ": 0[100/1000] 1[100/1000]"));
  }
  Ledger ledger_;
};

TEST_F(ShapeMemoTest, AsksOnceForPodsOfOneShape) {
  GpuRequest first = share_of(30);
  GpuRequest second = share_of(30);
  second.containers[0].name = "called differently";
  EXPECT_EQ(asked_for(ledger_, first, kPriced), 3);
  EXPECT_EQ(asked_for(ledger_, second, kPriced), 0);
}

TEST_F(ShapeMemoTest, AsksForEachShape) {
  const GpuRequest request = share_of(30);
  const GpuRequest larger = share_of(40);
  GpuRequest selective = share_of(30);
  selective.selector.models_excluded = {"T4"};
  const PlacementContext with_host(request, {MilliCpu(1), MiB()}, 0, nullptr);
  for (const PlacementContext& context : {PlacementContext(request), PlacementContext(larger),
                                          PlacementContext(selective), with_host}) {
    EXPECT_EQ(asked_for(ledger_, context, kPriced), 3);
    EXPECT_EQ(asked_for(ledger_, context, kPriced), 0);
  }
  static const Policy kOther = kPriced;
  EXPECT_EQ(asked_for(ledger_, request, kOther), 3) << "another policy";
}

TEST_F(ShapeMemoTest, AsksAgainAboutNodesThatChanged) {
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
      [&] { ledger_.expect(uid, NodeName("n1"), request, {{{CardIndex(0)}}}, at_ms(0), at_ms(9)); },
      [&] { ledger_.end_expectation(uid); },
      [&] { ledger_.apply_node(test::facts_of("n1: 0[100/2000]")); }};
  asked_for(ledger_, request, kPriced);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    changes[i]();
    EXPECT_EQ(asked_for(ledger_, request, kPriced), 1) << "change " << i;
    EXPECT_EQ(asked_for(ledger_, request, kPriced), 0) << "change " << i;
  }
}

TEST_F(ShapeMemoTest, AsksAboutANodeThatComesInThePlaceOfAnother) {
  const GpuRequest request = share_of(30);
  asked_for(ledger_, request, kPriced);
  ledger_.remove_node(NodeName("n1"));
  ledger_.apply_node(test::facts_of("n3: 0[100/1000]"));
  EXPECT_EQ(asked_for(ledger_, request, kPriced, {"n0", "n1", "n2", "n3"}), 1);
}

TEST_F(ShapeMemoTest, AsksAgainByAnotherMarket) {
  const GpuRequest request = share_of(30);
  const auto ask_by = [&](const PriceSnapshot* price_snapshot) {
    return asked_for(ledger_, PlacementContext(request, {}, 0, price_snapshot), kPriced);
  };
  const PriceSnapshot first = market_of(1);
  const PriceSnapshot second = market_of(2);
  EXPECT_EQ(ask_by(nullptr), 3);
  EXPECT_EQ(ask_by(&first), 3);
  EXPECT_EQ(ask_by(&first), 0);
  EXPECT_EQ(ask_by(&second), 3);
  EXPECT_EQ(ask_by(&first), 3);
}

TEST_F(ShapeMemoTest, ADecisionByTheMarketBeforeCostsTheOthersNothing) {
  const GpuRequest request = share_of(30);
  const PriceSnapshot first = market_of(1);
  const PriceSnapshot second = market_of(2);
  EXPECT_EQ(asked_for(ledger_, PlacementContext(request, {}, 0, &second), kPriced), 3);
  EXPECT_EQ(asked_for(ledger_, PlacementContext(request, {}, 0, &first), kPriced), 3);
  EXPECT_EQ(asked_for(ledger_, PlacementContext(request, {}, 0, &second), kPriced), 0);
}

TEST_F(ShapeMemoTest, AsksEveryTimeWhereAPolicyDraws) {
  const GpuRequest request = share_of(30);
  EXPECT_EQ(asked_for(ledger_, request, kDrawn), 3);
  EXPECT_EQ(asked_for(ledger_, request, kDrawn), 3);
}

TEST_F(ShapeMemoTest, ForgetsTheShapeThatWasAskedForLongestAgo) {
  for (int core = 1; core <= static_cast<int>(kRequestKeysMax); ++core)
    asked_for(ledger_, share_of(core), kPriced);
  EXPECT_EQ(asked_for(ledger_, share_of(1), kPriced), 0);
  EXPECT_EQ(asked_for(ledger_, share_of(99), kPriced), 3);
  EXPECT_EQ(asked_for(ledger_, share_of(1), kPriced), 0);
  EXPECT_EQ(asked_for(ledger_, share_of(2), kPriced), 3);
}

// --- ahead of a price snapshot
// ---------------------------------------------------------------------------

class ScoreAheadTest : public ShapeMemoTest {
 protected:
  void SetUp() override {
    ShapeMemoTest::SetUp();
    ask_by(now_);
  }
  int ask_by(const PriceSnapshot& price_snapshot) {
    return asked_for(ledger_, PlacementContext(request_, {MilliCpu(7), MiB()}, 0, &price_snapshot),
                     kPriced);
  }
  // How many nodes were asked about ahead.
  int ahead_of(const PriceSnapshot& price_snapshot, bool go_on = true) {
    asked = 0;
    ledger_.score_ahead(price_snapshot, [go_on] { return go_on; });
    return asked;
  }

  const GpuRequest request_ = share_of(30);
  const PriceSnapshot now_ = market_of(1);
  const PriceSnapshot next_ = market_of(2);
};

TEST_F(ScoreAheadTest, TheFirstThatIsAskedByTheMarketNeedNotWait) {
  EXPECT_EQ(ahead_of(next_), 3);
  EXPECT_EQ(ask_by(next_), 0);
}

TEST_F(ScoreAheadTest, TheScoresAreThoseOfTheMarket) {
  const auto scores_by = [&](const PriceSnapshot& price_snapshot) {
    std::vector<Scored> scores;
    ledger_.read(at_ms(0), [&](const View& view) {
      const PlacementContext context(request_, {MilliCpu(7), MiB()}, 0, &price_snapshot);
      scores = view.score(std::vector<std::string_view>{"n0", "n1"}, context, {&kPriced, &kPriced});
    });
    return scores;
  };
  ahead_of(next_);
  const std::vector<Scored> expected = {{true, true, 2008}, {true, true, 2008}};
  EXPECT_EQ(scores_by(next_), expected);
}

TEST_F(ScoreAheadTest, TheMarketThatStandsIsAnsweredFromWhatIsKept) {
  ahead_of(next_);
  EXPECT_EQ(ask_by(now_), 0);
  EXPECT_EQ(ask_by(next_), 0);
}

TEST_F(ScoreAheadTest, NodesThatChangeAfterwardsAreAskedAbout) {
  ahead_of(next_);
  ledger_.apply_pod(test::bound_claim("p", "n1", "30/300", "0"));
  EXPECT_EQ(ask_by(next_), 1);
}

TEST_F(ScoreAheadTest, NodesThatAreGoneAreNotAskedAbout) {
  ledger_.apply_pod(test::bound_claim("p", "n1", "30/300", "0"));
  ledger_.remove_node(NodeName("n1"));  // its pod keeps the record
  ledger_.remove_node(NodeName("n2"));
  EXPECT_EQ(ahead_of(next_), 1);
}

TEST_F(ScoreAheadTest, AnotherMarketIsAskedAbout) {
  ahead_of(next_);
  EXPECT_EQ(ask_by(market_of(3)), 3);
}

TEST_F(ScoreAheadTest, NothingComesOfItWhereItIsToEnd) {
  EXPECT_EQ(ahead_of(next_, false), 3);
  EXPECT_EQ(ask_by(next_), 3);
}

TEST_F(ScoreAheadTest, ManyNodesAreFoundInSteps) {
  constexpr int kNodes = 1'000;
  std::vector<std::string> names;
  for (int i = 3; i < kNodes; ++i) names.push_back("n" + std::to_string(i));
  for (const std::string& name : names) ledger_.apply_node(test::facts_of(name + ": 0[100/1000]"));
  EXPECT_EQ(ahead_of(next_), kNodes);
  EXPECT_EQ(asked_for(ledger_, PlacementContext(request_, {MilliCpu(7), MiB()}, 0, &next_), kPriced,
                      {names.begin(), names.end()}),
            0);
}

TEST_F(ScoreAheadTest, ShapesThatNobodyAsksForAreLeftOutInTheEnd) {
  for (int price_snapshot = 0; price_snapshot < kIdleRefreshesMax; ++price_snapshot) {
    EXPECT_EQ(ahead_of(market_of(2)), 3) << "after " << price_snapshot;
  }
  EXPECT_EQ(ahead_of(market_of(2)), 0);
  ask_by(next_);
  EXPECT_EQ(ahead_of(market_of(3)), 3);
}

TEST_F(ScoreAheadTest, PodsThatArePlacedByADrawAreLeftOut) {
  asked_for(ledger_, request_, kDrawn);
  EXPECT_EQ(ahead_of(next_), 3) << "of the other shape";
}

// --- any sequence of changes and questions -------------------------------------------------------

class World {
 public:
  explicit World(std::uint32_t seed) : random_(seed) {}

  void step() {
    now_ms_ += pick(3);
    switch (pick(9)) {
      case 8:
        return next_market();
      case 0:
        return ledger_.apply_node(random_facts());
      case 1:
        return pick(3) == 0 ? ledger_.remove_node(random_node()) : void();
      case 2:
        return ledger_.remove_pod(random_uid());
      case 3:
        return ledger_.apply_non_gpu({random_uid(), random_node(), random_host()});
      case 4:
        return expect();
      default:
        return assume_or_show();
    }
  }

  // "" where the ledger answers as if it kept nothing.
  std::string difference() {
    const GpuRequest request = random_request();
    const PlacementContext context(request, random_host(), random_(), random_market());
    const PolicyChoice policy = random_policy();
    std::string difference;
    ledger_.read(at_ms(now_ms_), [&](const View& view) {
      const auto reasons = view.why_not(kNames, request);
      const auto scores = view.score(kNames, context, policy);
      for (std::size_t i = 0; i < kNames.size(); ++i) {
        if (reasons[i] != plain_reason(view, kNames[i], request))
          difference += " fit of " + std::string(kNames[i]);
        if (scores[i] != plain_score(view, kNames[i], context, policy))
          difference += " score of " + std::string(kNames[i]);
      }
    });
    return difference;
  }

 private:
  static inline const std::vector<std::string_view> kNames = {"n2", "n0", "nobody",
                                                              "n3", "n1", "n2"};

  static std::optional<Reason> plain_reason(const View& view, std::string_view name,
                                            const GpuRequest& request) {
    const Node* node = view.find(name);
    SearchBudget budget{kPlacementStepsMax};
    return node == nullptr ? Reason::kNodeUnknown : why_not(*node, request, budget);
  }
  static Scored plain_score(const View& view, std::string_view name,
                            const PlacementContext& context, const PolicyChoice& policy) {
    const Node* node = view.find(name);
    if (node == nullptr) return {};
    SearchBudget budget{kPlacementStepsMax};
    const auto answer = place(*node, context, *policy.card, budget);
    const auto* placed = std::get_if<Placed>(&answer);
    if (placed == nullptr) return {};
    const auto held = holds(*node, context.request, placed->placement);
    return {true, placed->beside_expected, policy.node->score_node(context, *node, held)};
  }

  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  NodeName random_node() { return NodeName("n" + std::to_string(pick(4))); }
  PodUid random_uid() { return PodUid("p" + std::to_string(pick(12))); }
  NodeResources random_host() { return {MilliCpu(pick(3)), MiB(pick(2) * 100)}; }
  // Most are asked about by the last one.
  const PriceSnapshot* random_market() {
    if (markets_.empty() || pick(8) == 0) return nullptr;
    return pick(8) > 0 ? &markets_.back() : &markets_[random_() % markets_.size()];
  }
  void next_market() {
    if (pick(8) > 0) return;
    PriceSnapshot price_snapshot = market_of(markets_.size() + 1);
    const PriceSnapshot& next = markets_.emplace_back(std::move(price_snapshot));
    if (pick(3) > 0) ledger_.score_ahead(next, [] { return true; });
  }
  PolicyChoice random_policy() {
    static constexpr const char* kNamed[] = {"binpack", "spread", "spread/binpack", "random"};
    if (pick(2) == 0) return {&kPriced, pick(4) == 0 ? &kDrawn : &kPriced};
    return *find_policy(kNamed[pick(4)]);
  }
  GpuRequest random_request() {
    GpuRequest request = share_of(5 * (1 + pick(20)));
    if (pick(3) == 0) request.containers.push_back(request.containers[0]);
    if (pick(8) == 0) request.containers.clear();
    if (pick(6) == 0) request.selector.models = {pick(2) == 0 ? "A100" : "T4"};
    return request;
  }
  NodeFacts random_facts() {
    NodeFacts facts;
    facts.name = random_node();
    facts.allocatable = random_host();
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
    ledger_.expect(random_uid(), random_node(), request, {{{CardIndex(pick(3))}}}, at_ms(now_ms_),
                   at_ms(now_ms_ + pick(20)));
  }
  void assume_or_show() {
    Claim claim;
    claim.uid = random_uid();
    claim.pod = {"d", claim.uid.str()};
    claim.node = random_node();
    claim.request = share_of(5 * (1 + pick(20)));
    claim.host = random_host();
    const auto answer = ledger_.assume(claim, kPriced, at_ms(now_ms_));
    const auto* assumed = std::get_if<Assumed>(&answer);
    if (pick(4) == 0) claim.drift = Drift::kBadAnnotations;
    if (assumed != nullptr && claim.drift == Drift::kNone) claim.placement = assumed->placement;
    if (assumed != nullptr && pick(3) == 0) return ledger_.forget(assumed->id);
    if (pick(2) == 0 && (claim.placement || claim.drift != Drift::kNone)) ledger_.apply_pod(claim);
  }

  std::mt19937 random_;
  int now_ms_ = 100;
  std::deque<PriceSnapshot> markets_;
  Ledger ledger_;
};

class ShapeMemoProperty : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ShapeMemoProperty, AnswersAreThoseOfALedgerThatKeepsNothing) {
  World world(GetParam());
  for (int step = 0; step < 4000; ++step) {
    world.step();
    ASSERT_EQ(world.difference(), "") << "seed " << GetParam() << ", step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ShapeMemoProperty, testing::Range(1u, 9u));

}  // namespace
}  // namespace mgpu::extender
