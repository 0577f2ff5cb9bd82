// Random sequences of events, compared after every step with a reference that recomputes all
// totals.
#include <gtest/gtest.h>

#include <random>

#include "extender/placement/policy.h"
#include "test/support/ledger_text.h"
#include "test/support/reference_ledger.h"

namespace mgpu::extender {
namespace {

using test::at_ms;

class World {
 public:
  explicit World(std::uint32_t seed) : random_(seed) {}

  // One random event for both.
  void step() {
    now_ms_ += pick(3);
    switch (pick(16)) {
      case 0:
        return change_node();
      case 1:
        return remove_node();
      case 2:
        return pick(4) == 0 ? relist_nodes() : change_node();
      case 3:
        return pick(4) == 0 ? relist_pods() : end_expectation();
      case 4:
      case 5:
        return show_pod(random_claim());
      case 6:
      case 7:
        return end_pod();
      case 8:
      case 9:
        return settle();
      case 10:
      case 11:
        return expect();
      default:
        return assume();
    }
  }

  std::string difference() const {
    const std::string difference = right_.difference(ledger_);
    if (!difference.empty()) return difference;
    std::vector<ClaimId> assumed;
    for (const auto& claim : ledger_.assumed_before(at_ms(now_ms_ - 5)))
      assumed.push_back(claim.id);
    return assumed == right_.assumed_before(at_ms(now_ms_ - 5)) ? "" : "other assumed claims";
  }

  // A ledger filled from the current state of the API server is equal, except for assumed claims.
  std::string difference_after_restart() {
    for (const auto& claim : ledger_.assumed_before(Instant::max())) {
      ledger_.forget(claim.id);
      right_.forget(claim.id);
    }
    Ledger restarted;
    std::vector<NodeFacts> nodes;
    std::vector<Claim> claims;
    for (const auto& [name, facts] : api_nodes_) nodes.push_back(facts);
    for (const auto& [uid, claim] : api_pods_) claims.push_back(claim);
    if (pick(2) == 0) {
      restarted.replace_nodes(nodes);
      restarted.replace_pods(claims);
    } else {
      restarted.replace_pods(claims);
      restarted.replace_nodes(nodes);
    }
    for (const NodeName& name : ledger_.reader().node_names()) {
      const std::string before = test::used_text(ledger_, name.str().c_str());
      if (api_nodes_.contains(name) && test::used_text(restarted, name.str().c_str()) != before)
        return name.str() + " is another after a restart";
    }
    return "";
  }

 private:
  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  Instant now() const { return at_ms(now_ms_); }
  std::string random_node() { return "n" + std::to_string(pick(4)); }
  std::string random_uid() { return "p" + std::to_string(pick(24)); }

  NodeFacts random_facts() {
    NodeFacts facts;
    facts.name = NodeName(random_node());
    if (pick(6) == 0) facts.profile = {.name = "shares", .minimum = {Percent(20), MiB(200)}};
    if (pick(8) == 0) facts.problem = "not readable";
    for (int index = 0; index < 5 && facts.problem.empty(); ++index) {
      if (pick(4) == 0) continue;
      CardFacts& card = facts.cards.emplace_back();
      card.index = CardIndex(index);
      card.uuid = CardUuid("GPU-" + std::to_string(index));
      card.memory = MiB(pick(5) == 0 ? 600 : 1000);
      if (pick(3) == 0) card.core = Percent(100 + 50 * pick(5));
      if (pick(10) == 0) card.health = "Xid79";
    }
    return facts;
  }

  std::string random_request() {
    static constexpr const char* kRequests[] = {"30/300",        "10/100",
                                                "50/500x2",      "whole",
                                                "wholex2",       "100/600",
                                                "30/300 40/400", "init:80/800 20/200",
                                                "20/900",        "side:10/100 init:50/100 30/300"};
    return kRequests[pick(std::size(kRequests))];
  }

  Claim unplaced() { return test::unplaced_claim(random_uid(), random_node(), random_request()); }

  // Bound by another scheduler, on any node, with room or without; or the edit of a bound pod.
  Claim random_claim() {
    Claim claim = unplaced();
    if (pick(12) == 0) {
      claim.drift = DriftKind::kBindingWithoutCards;
      if (pick(3) != 0) claim.most_of_one_card = Share{Percent(10 * pick(11)), MiB(pick(2000))};
      return claim;
    }
    claim.placement.emplace();
    for (const ContainerRequest& container : claim.request.containers) {
      const int first = pick(5);
      std::vector<CardIndex>& cards = claim.placement->cards_of.emplace_back();
      for (int i = 0; i < container.cards; ++i) cards.push_back(CardIndex(first + i));
    }
    return claim;
  }

  void change_node() {
    const NodeFacts facts = random_facts();
    api_nodes_[facts.name] = facts;
    ledger_.apply_node(facts);
    right_.apply_node(facts);
  }

  void remove_node() {
    const NodeName node(random_node());
    api_nodes_.erase(node);
    ledger_.remove_node(node);
    right_.remove_node(node);
  }

  void relist_nodes() {
    if (pick(2) == 0) api_nodes_.erase(NodeName(random_node()));
    std::vector<NodeFacts> nodes;
    for (const auto& [name, facts] : api_nodes_) nodes.push_back(facts);
    ledger_.replace_nodes(nodes);
    right_.replace_nodes(nodes);
  }

  void relist_pods() {
    if (pick(2) == 0) api_pods_.erase(PodUid(random_uid()));
    std::vector<Claim> claims;
    for (const auto& [uid, claim] : api_pods_) claims.push_back(claim);
    ledger_.replace_pods(claims);
    right_.replace_pods(claims);
  }

  void show_pod(const Claim& claim) {
    ledger_.apply_pod(claim);
    right_.apply_pod(claim);
    restore(claim.uid);
  }

  // The API server has the pod with the cards that it was bound with: an edit is undone after its
  // event.
  void restore(const PodUid& uid) {
    const Claim* claim = right_.bound_claim(uid);
    if (claim != nullptr) api_pods_.insert_or_assign(uid, *claim);
  }

  void end_pod() {
    const PodUid uid(random_uid());
    api_pods_.erase(uid);
    ledger_.remove_pod(uid);
    right_.remove_pod(uid);
  }

  void assume() {
    Claim claim = unplaced();
    const Policy& policy = *find_policy(pick(2) == 0 ? "binpack" : "spread")->card;
    const auto right = right_.answer(claim, policy, now());
    const auto answer = ledger_.assume(claim, policy, now());
    const Assumed* assumed = std::get_if<Assumed>(&answer);
    ASSERT_EQ(assumed != nullptr, right.index() == 0);
    if (assumed == nullptr) {
      ASSERT_EQ(std::get<Reason>(answer), std::get<Reason>(right));
      return;
    }
    ASSERT_EQ(assumed->placement, std::get<Placement>(right));
    check_room(claim, assumed->placement);
    claim.placement = assumed->placement;
    right_.assumed(assumed->id, claim, now());
    attempts_.push_back({assumed->id, claim});
  }

  // Before this step: an assumed pod had room, whatever other schedulers have bound to the card.
  void check_room(const Claim& claim, const Placement& placement) {
    const Node node = right_.node(claim.node);
    for (const CardHold& hold : holds(node, claim.request, placement)) {
      const Card* card = node.find(hold.card);
      ASSERT_NE(card, nullptr);
      ASSERT_TRUE(card->usable());
      ASSERT_TRUE(hold.share.fits_in(card->room()));
    }
  }

  // The outcome of one attempt, in any order, and some twice.
  void settle() {
    if (attempts_.empty()) return;
    const std::size_t at = static_cast<std::size_t>(pick(static_cast<int>(attempts_.size())));
    const Attempt attempt = attempts_[at];
    if (pick(4) != 0) attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(at));
    switch (pick(3)) {
      case 0:
        ledger_.forget(attempt.id);
        return right_.forget(attempt.id);
      case 1:
        ledger_.bound(attempt.id, now());
        right_.bound(attempt.id, now());
        return restore(attempt.claim.uid);
      default:
        return show_pod(attempt.claim);
    }
  }

  void expect() {
    const Claim claim = random_claim();
    if (!claim.placement) return;
    const Instant until = at_ms(now_ms_ + pick(40));
    ledger_.reservations().expect(claim.uid, claim.node, claim.request, *claim.placement, now(),
                                  until);
    right_.expect(claim.uid, claim.node, claim.request, *claim.placement, now(), until);
  }

  void end_expectation() {
    const PodUid uid(random_uid());
    ledger_.reservations().end_expectation(uid);
    right_.end_expectation(uid);
    ledger_.reader().read(now(), [](const View&) {});
    right_.expire(now());
  }

  struct Attempt {
    ClaimId id;
    Claim claim;
  };

  std::mt19937 random_;
  int now_ms_ = 100;
  Ledger ledger_;
  test::ReferenceLedger right_;
  std::map<NodeName, NodeFacts> api_nodes_;
  std::map<PodUid, Claim> api_pods_;
  std::vector<Attempt> attempts_;
};

class LedgerProperty : public testing::TestWithParam<std::uint32_t> {};

TEST_P(LedgerProperty, EqualsTheReferenceAfterEveryStep) {
  World world(GetParam());
  for (int step = 0; step < 1500; ++step) {
    world.step();
    ASSERT_FALSE(HasFatalFailure()) << "seed " << GetParam() << ", step " << step;
    ASSERT_EQ(world.difference(), "") << "seed " << GetParam() << ", step " << step;
  }
  EXPECT_EQ(world.difference_after_restart(), "") << "seed " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Seeds, LedgerProperty, testing::Range(1u, 11u));

}  // namespace
}  // namespace mgpu::extender
