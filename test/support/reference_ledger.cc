#include "test/support/reference_ledger.h"

#include <algorithm>
#include <set>

#include "extender/placement/limits.h"
#include "test/support/cluster_text.h"
#include "test/support/ledger_text.h"

namespace mgpu::test {
namespace {

using extender::Card;
using extender::CardHold;
using extender::Claim;
using extender::ClaimId;
using extender::Node;
using extender::NodeFacts;

bool same_cards(const NodeFacts& a, const NodeFacts& b) {
  const auto same = [](const CardFacts& x, const CardFacts& y) {
    return x.index == y.index && x.uuid == y.uuid && x.model == y.model && x.memory == y.memory &&
           x.core == y.core && x.healthy() == y.healthy();
  };
  return a.profile == b.profile && std::ranges::equal(a.cards, b.cards, same);
}

Node empty_node(const NodeFacts& facts) {
  Node node;
  node.name = facts.name;
  node.profile = facts.profile;
  for (const CardFacts& card : facts.cards) {
    Card& added = node.cards.emplace_back();
    added.index = card.index;
    added.uuid = card.uuid;
    added.model = card.model;
    added.capacity = {card.core, card.memory};
    added.healthy = card.healthy();
  }
  return node;
}

void add_to(Node& node, const std::vector<CardHold>& holds, Share Card::*total) {
  for (const CardHold& hold : holds)
    if (Card* card = node.find(hold.card)) card->*total += hold.share;
}

std::vector<CardHold> holds_of(const Node& cards, const Claim& claim) {
  if (claim.placement) return holds(cards, claim.request, *claim.placement);
  std::vector<CardHold> held;
  if (!claim.most_of_one_card) return held;
  for (const Card& card : cards.cards) {
    const Share& most = *claim.most_of_one_card;
    // 100 % is all of the card's compute.
    const Percent core = most.core >= kWholeCard ? card.capacity.core : most.core;
    held.push_back({card.index, {core, std::min(most.memory, card.capacity.memory)}});
  }
  return held;
}

std::string cards_text(const Node& node) {
  std::string text;
  for (const Card& card : node.cards)
    text += std::to_string(card.index.value()) + "[" + text_of(card.capacity) +
            " used=" + text_of(card.used) + " expected=" + text_of(card.expected) +
            (card.healthy ? "" : " unhealthy") + (card.uncertain ? " uncertain" : "") + "] ";
  return text;
}

std::string claim_text(const Claim& claim, bool assumed, std::optional<DriftKind> drift,
                       const std::vector<CardHold>& holds) {
  return claim.uid.str() + (assumed ? " assumed " : " bound ") + text_of(drift) + " " +
         text_of(holds);
}

}  // namespace

// --- nodes ---------------------------------------------------------------------------------------

void ReferenceLedger::replace_nodes(std::vector<NodeFacts> nodes) {
  std::set<NodeName> listed;
  for (const NodeFacts& node : nodes) listed.insert(node.name);
  for (const NodeName& name : node_names())
    if (!listed.contains(name)) remove_node(name);
  for (const NodeFacts& node : nodes) apply_node(node);
}

void ReferenceLedger::apply_node(const NodeFacts& node) {
  const auto old = nodes_.find(node.name);
  if (old == nodes_.end() || !same_cards(old->second, node)) end_expectations_on(node.name);
  nodes_[node.name] = node;
}

void ReferenceLedger::remove_node(const NodeName& node) {
  nodes_.erase(node);
  end_expectations_on(node);
}

void ReferenceLedger::end_expectations_on(const NodeName& node) {
  std::erase_if(expected_, [&](const Expected& e) { return e.node == node; });
}

// --- pods ----------------------------------------------------------------------------------------

void ReferenceLedger::replace_pods(const std::vector<Claim>& claims) {
  std::set<PodUid> listed;
  for (const Claim& claim : claims) listed.insert(claim.uid);
  std::erase_if(held_,
                [&](const Held& held) { return held.id == 0 && !listed.contains(held.claim.uid); });
  for (const Claim& claim : claims) apply_pod(claim);
}

const ReferenceLedger::Held* ReferenceLedger::bound_with(const Claim& shown) const {
  const Held* found = nullptr;
  for (const Held& held : held_) {
    if (held.claim.uid != shown.uid || held.claim.node != shown.node) continue;
    if (held.accepted) return &held;
    if (held.id == 0) found = &held;
  }
  return found;
}

void ReferenceLedger::apply_pod(const Claim& claim) {
  end_expectation(claim.uid);
  Held now{0, claim, {}};
  bool certain = false;
  if (const Held* first = bound_with(claim)) {
    certain = first->accepted;
    now.edited =
        first->claim.placement && (first->claim.placement != claim.placement ||
                                   first->claim.request.containers != claim.request.containers);
    now.claim.request = first->claim.request;
    now.claim.placement = first->claim.placement;
    now.claim.most_of_one_card = first->claim.most_of_one_card;
    if (!first->claim.placement) now.claim.drift = first->claim.drift;
  }
  std::erase_if(held_, [&](const Held& held) {
    if (held.claim.uid != claim.uid) return false;
    const bool other = held.id != 0 && held.claim.node == claim.node &&
                       held.claim.placement != now.claim.placement;
    return certain || !other;
  });
  if (now.claim.placement) now.claim.drift.reset();
  held_.push_back(now);
}

const Claim* ReferenceLedger::bound_claim(const PodUid& uid) const {
  const auto at = std::ranges::find_if(
      held_, [&](const Held& held) { return held.id == 0 && held.claim.uid == uid; });
  return at == held_.end() ? nullptr : &at->claim;
}

void ReferenceLedger::remove_pod(const PodUid& uid) {
  end_expectation(uid);
  std::erase_if(held_, [&](const Held& held) { return held.claim.uid == uid; });
}

// --- bind ----------------------------------------------------------------------------------------

std::variant<Placement, extender::Reason> ReferenceLedger::answer(const Claim& claim,
                                                                  const extender::Policy& policy,
                                                                  Instant now) {
  expire(now);
  end_expectation(claim.uid);
  if (!nodes_.contains(claim.node)) return extender::Reason::kNodeUnknown;
  extender::SearchBudget budget{extender::kPlacementStepsMax};
  auto placed = extender::place(node(claim.node), claim.request, policy, budget);
  if (const auto* reason = std::get_if<extender::Reason>(&placed)) return *reason;
  return std::get<extender::Placed>(placed).placement;
}

void ReferenceLedger::assumed(ClaimId id, Claim claim, Instant now) {
  held_.push_back({id, std::move(claim), now, false, false});
}

void ReferenceLedger::bound(ClaimId id, Instant now) {
  const auto taken =
      std::ranges::find_if(held_, [&](const Held& held) { return id != 0 && held.id == id; });
  if (taken == held_.end()) return;
  taken->touched = now;
  taken->accepted = true;
  const PodUid uid = taken->claim.uid;
  const auto shown = std::ranges::find_if(
      held_, [&](const Held& held) { return held.id == 0 && held.claim.uid == uid; });
  if (shown == held_.end()) {
    std::erase_if(held_, [&](const Held& held) { return held.claim.uid == uid && held.id != id; });
    return;
  }
  const bool edited = shown->edited;
  apply_pod(Claim(shown->claim));
  held_.back().edited = held_.back().edited || edited;
}

void ReferenceLedger::forget(ClaimId id) {
  std::erase_if(held_, [&](const Held& held) { return id != 0 && held.id == id; });
}

std::vector<ClaimId> ReferenceLedger::assumed_before(Instant before) const {
  std::vector<ClaimId> ids;
  for (const Held& held : held_)
    if (held.id != 0 && held.touched < before) ids.push_back(held.id);
  std::ranges::sort(ids);
  return ids;
}

// --- expectations --------------------------------------------------------------------------------

void ReferenceLedger::expect(const PodUid& uid, const NodeName& node, const GpuRequest& request,
                             const Placement& placement, Instant now, Instant until) {
  expire(now);
  end_expectation(uid);
  if (nodes_.contains(node) && until > now)
    expected_.push_back({uid, node, request, placement, until});
}

void ReferenceLedger::end_expectation(const PodUid& uid) {
  std::erase_if(expected_, [&](const Expected& e) { return e.uid == uid; });
}

void ReferenceLedger::expire(Instant now) {
  std::erase_if(expected_, [&](const Expected& e) { return e.until <= now; });
}

// --- read ----------------------------------------------------------------------------------------

Node ReferenceLedger::empty(const NodeName& name) const {
  const auto facts = nodes_.find(name);
  if (facts != nodes_.end()) return empty_node(facts->second);
  Node node;
  node.name = name;
  return node;
}

// Adds the holds of the claims on the node, with those of claims without a placement or without.
void ReferenceLedger::add_held(Node& node, bool unplaced) const {
  const Node cards = node;
  for (const Held& held : held_) {
    if (held.claim.node != node.name || (!unplaced && !held.claim.placement)) continue;
    add_to(node, holds_of(cards, held.claim), &Card::used);
    if (held.claim.placement || held.claim.most_of_one_card) continue;
    for (Card& card : node.cards) card.uncertain = true;
  }
}

Node ReferenceLedger::node(const NodeName& name) const {
  Node node = empty(name);
  const Node cards = node;
  add_held(node, true);
  for (const Expected& e : expected_)
    if (e.node == name) add_to(node, holds(cards, e.request, e.placement), &Card::expected);
  return node;
}

std::vector<NodeName> ReferenceLedger::node_names() const {
  std::set<NodeName> names;
  for (const auto& [name, facts] : nodes_) names.insert(name);
  for (const Held& held : held_) names.insert(held.claim.node);
  return {names.begin(), names.end()};
}

std::optional<DriftKind> ReferenceLedger::drift_of(const Held& held) const {
  const Claim& claim = held.claim;
  if (!claim.placement) return claim.drift;
  if (held.edited) return DriftKind::kChangedAnnotations;
  if (!nodes_.contains(claim.node)) return std::nullopt;
  const Node cards = node(claim.node);
  for (const auto& container : claim.placement->cards_of)
    for (const CardIndex card : container)
      if (cards.find(card) == nullptr) return DriftKind::kBindingWithoutCards;
  return std::nullopt;
}

extender::Counts ReferenceLedger::counts() const {
  extender::Counts counts;
  counts.nodes = nodes_.size();
  counts.expected = expected_.size();
  for (const auto& [name, facts] : nodes_) {
    Node known = empty(name);
    add_held(known, false);
    for (const Card& card : known.cards) {
      ++counts.cards;
      if (!card.used.fits_in(card.capacity)) ++counts.overfull;
    }
  }
  for (const Held& held : held_) {
    ++(held.id == 0 ? counts.bound : counts.assumed);
    if (drift_of(held)) ++counts.drifting;
  }
  return counts;
}

std::string ReferenceLedger::difference_of(const NodeName& name,
                                           const extender::NodeView& view) const {
  const Node expected = node(name);
  if (cards_text(expected) != cards_text(view.node))
    return name.str() + ": " + cards_text(view.node) + "instead of " + cards_text(expected);
  std::multiset<std::string> here;
  for (const Held& held : held_) {
    if (held.claim.node != name) continue;
    here.insert(
        claim_text(held.claim, held.id != 0, drift_of(held), holds_of(expected, held.claim)));
  }
  std::multiset<std::string> shown;
  for (const extender::ClaimView& claim : view.claims)
    shown.insert(claim_text(claim.claim, claim.phase == extender::Phase::kAssumed,
                            claim.claim.drift, claim.holds));
  return here == shown ? "" : name.str() + ": other claims";
}

std::string ReferenceLedger::difference(const extender::Ledger& ledger) const {
  if (ledger.reader().node_names() != node_names()) return "other nodes";
  for (const NodeName& name : node_names()) {
    const std::string difference = difference_of(name, *ledger.reader().node(name));
    if (!difference.empty()) return difference;
  }
  const extender::Counts shown = ledger.reader().counts();
  const extender::Counts right = counts();
  const bool same = shown.nodes == right.nodes && shown.cards == right.cards &&
                    shown.assumed == right.assumed && shown.bound == right.bound &&
                    shown.drifting == right.drifting && shown.overfull == right.overfull &&
                    shown.expected == right.expected;
  return same ? "" : "other counts";
}

}  // namespace mgpu::test
