#include "extender/ledger/node_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {
namespace {

bool is_cordoned(const NodeFacts& node, CardIndex card) {
  return std::ranges::binary_search(node.cordoned, card);
}

Card card_from(CardFacts facts, bool cordoned) {
  Card card;
  card.cordoned = cordoned;
  card.healthy = facts.healthy();
  card.reserved = facts.reserved();
  card.index = facts.index;
  card.uuid = std::move(facts.uuid);
  card.model = std::move(facts.model);
  card.instance = card.uuid.str().starts_with("MIG-") || is_instance(card.model);
  card.capacity = facts.capacity();
  card.numa = facts.numa;
  card.kind = kind_id(card.model, facts.memory);
  return card;
}

// node_facts_of has checked the policy.
void set_profile(Node& node, NodeProfile profile) {
  PolicyChoice policy;
  if (!profile.policy.empty()) policy = find_policy(profile.policy).value();
  node.node_policy = policy.node;
  node.card_policy = policy.card;
  node.profile = std::move(profile);
}

bool same(const Card& card, const CardFacts& facts, const NodeFacts& node) {
  return card.cordoned == is_cordoned(node, facts.index) && card.index == facts.index &&
         card.uuid == facts.uuid && card.model == facts.model &&
         card.capacity == facts.capacity() && card.healthy == facts.healthy() &&
         card.reserved == facts.reserved() && card.numa == facts.numa;
}

bool same_links(const Node& node, const CardLinks& links) {
  return node.links == nullptr ? links.empty() : *node.links == links;
}

void mark_uncertain(NodeRecord& record) {
  for (Card& card : record.node.cards) card.uncertain = record.blocking > 0;
}

// Sets the drift that depends on the node. Changed annotations stay that. On a node that is not
// present no card counts as unknown. REQUIRES: the claim has a placement.
void find_unknown_cards(const NodeRecord& record, ClaimView& view) {
  if (view.claim.drift == DriftKind::kChangedAnnotations) return;
  view.claim.drift.reset();
  view.claim.drift_detail.clear();
  if (!record.present) return;
  for (const CardHold& hold : view.holds) {
    if (record.node.find(hold.card) != nullptr) continue;
    view.claim.drift = DriftKind::kBindingWithoutCards;
    view.claim.drift_detail =
        fmt::format("node {} has no card {} now", record.node.name.str(), hold.card.value());
    return;
  }
}

bool blocks(const Claim& claim) {
  return !claim.placement && !claim.most_of_one_card;
}

// What the claim counts with on each card, ascending by card.
std::vector<CardHold> holds_of(const Node& node, const Claim& claim) {
  if (claim.placement) return holds(node, claim.request, *claim.placement);
  std::vector<CardHold> held;
  if (!claim.most_of_one_card) return held;
  for (const Card& card : node.cards) {
    held.push_back({card.index, at_most_of(card, *claim.most_of_one_card)});
  }
  return held;
}

// Cards that the node does not have are skipped: when one appears, all claims are counted again.
void count(NodeRecord& record, Entry& entry) {
  ClaimView& view = entry.view;
  view.holds = holds_of(record.node, view.claim);
  view.holds.shrink_to_fit();
  if (view.claim.placement) find_unknown_cards(record, view);
  if (blocks(view.claim)) ++record.blocking;
  if (view.claim.drift) ++record.drifting;
  for (const CardHold& hold : view.holds)
    if (Card* card = record.node.find(hold.card)) card->used += hold.share;
}

void count_all(NodeRecord& record) {
  for (Card& card : record.node.cards) card.used = Share{};
  record.blocking = 0;
  record.drifting = 0;
  for (Entry* entry : record.claims) count(record, *entry);
  mark_uncertain(record);
}

// kubelet runs some hundred pods. With more claims than that, counting all of them after each
// change would take most of a test's time.
constexpr std::size_t kClaimsCheckedMax = 128;

void check_totals(const NodeRecord& record) {
  MGPU_DEBUG_CHECK(record.claims.size() > kClaimsCheckedMax || totals_are_consistent(record),
                   "a node's totals are those of its claims");
}

}  // namespace

bool totals_are_consistent(const NodeRecord& record) {
  NodeRecord counted;
  counted.node.cards = record.node.cards;
  for (Card& card : counted.node.cards) card.used = Share{};
  for (const Entry* entry : record.claims) {
    const ClaimView& view = entry->view;
    if (entry->record != &record) return false;
    counted.blocking += blocks(view.claim) ? 1 : 0;
    counted.drifting += view.claim.drift ? 1 : 0;
    counted.node.resources_used += view.claim.resources;
    for (const CardHold& hold : view.holds)
      if (Card* card = counted.node.find(hold.card)) card->used += hold.share;
  }
  const auto same = [&](const Card& card, const Card& claimed) {
    return card.used == claimed.used && card.uncertain == (record.blocking > 0) &&
           (record.expectations > 0 || card.expected.zero());
  };
  // Pods without cards count in resources_used, too, and have no claims.
  const bool resources = record.non_gpu_pods > 0
                             ? counted.node.resources_used.fits_in(record.node.resources_used)
                             : counted.node.resources_used == record.node.resources_used;
  const bool pods = record.node.pods_counted ==
                    static_cast<std::int64_t>(record.claims.size() + record.non_gpu_pods);
  return counted.blocking == record.blocking && counted.drifting == record.drifting && resources &&
         pods && std::ranges::equal(record.node.cards, counted.node.cards, same);
}

Share at_most_of(const Card& card, const Share& most) {
  return {most.core < kWholeCard ? most.core : card.capacity.core,
          std::min(most.memory, card.capacity.memory)};
}

bool changes(const NodeRecord& record, const NodeFacts& facts) {
  return !record.present || record.node.profile != facts.profile ||
         record.node.allocatable != facts.allocatable ||
         record.node.pods_allowed != facts.pods_allowed || !same_links(record.node, facts.links) ||
         !std::equal(record.node.cards.begin(), record.node.cards.end(), facts.cards.begin(),
                     facts.cards.end(), [&](const Card& card, const CardFacts& one) {
                       return same(card, one, facts);
                     });
}

void set_facts(NodeRecord& record, NodeFacts facts) {
  MGPU_CHECK(record.expectations == 0, "cards replaced under expected placements");
  record.changed();
  record.present = true;
  record.problem = std::move(facts.problem);
  record.node.allocatable = facts.allocatable;
  record.node.pods_allowed = facts.pods_allowed;
  set_profile(record.node, std::move(facts.profile));
  record.node.links =
      facts.links.empty() ? nullptr : std::make_shared<const CardLinks>(std::move(facts.links));
  record.node.cards.clear();
  record.node.cards.reserve(facts.cards.size());
  for (CardFacts& card : facts.cards) {
    const bool cordoned = is_cordoned(facts, card.index);
    record.node.cards.push_back(card_from(std::move(card), cordoned));
  }
  count_all(record);
  check_totals(record);
}

void set_absent(NodeRecord& record) {
  MGPU_DEBUG_CHECK(record.expectations == 0, "cards removed under expected placements");
  record.changed();
  record.present = false;
  record.problem.clear();
  record.healths.clear();
  record.node.links.reset();
  set_profile(record.node, {});
  record.node.cards.clear();
  count_all(record);
  check_totals(record);
}

void add(NodeRecord& record, Entry& entry) {
  MGPU_CHECK(entry.record == nullptr, "a claim on two nodes");
  record.changed();
  entry.record = &record;
  record.claims.push_back(&entry);
  ++record.node.pods_counted;
  record.node.resources_used += entry.view.claim.resources;
  count(record, entry);
  if (blocks(entry.view.claim) && record.blocking == 1) mark_uncertain(record);
  check_totals(record);
}

void remove(Entry& entry) {
  NodeRecord& record = *entry.record;
  record.changed();
  const auto at = std::ranges::find(record.claims, &entry);
  MGPU_CHECK(at != record.claims.end(), "a claim is missing on its node");
  record.claims.erase(at);
  entry.record = nullptr;
  --record.node.pods_counted;
  record.node.resources_used -= entry.view.claim.resources;
  for (const CardHold& hold : entry.view.holds)
    if (Card* card = record.node.find(hold.card)) card->used -= hold.share;
  if (entry.view.claim.drift) --record.drifting;
  if (blocks(entry.view.claim) && --record.blocking == 0) mark_uncertain(record);
  check_totals(record);
}

void add_non_gpu(NodeRecord& record, const NodeResources& resources) {
  record.changed();
  ++record.non_gpu_pods;
  ++record.node.pods_counted;
  record.node.resources_used += resources;
  check_totals(record);
}

void remove_non_gpu(NodeRecord& record, const NodeResources& resources) {
  MGPU_CHECK(record.non_gpu_pods > 0, "a non-GPU pod is missing on its node");
  record.changed();
  --record.non_gpu_pods;
  --record.node.pods_counted;
  record.node.resources_used -= resources;
  check_totals(record);
}

void add_expected(NodeRecord& record, const std::vector<CardHold>& holds) {
  record.changed();
  ++record.expectations;
  for (const CardHold& hold : holds)
    if (Card* card = record.node.find(hold.card)) card->expected += hold.share;
}

void remove_expected(NodeRecord& record, const std::vector<CardHold>& holds) {
  MGPU_CHECK(record.expectations > 0, "an expected placement is missing on its node");
  record.changed();
  --record.expectations;
  for (const CardHold& hold : holds)
    if (Card* card = record.node.find(hold.card)) card->expected -= hold.share;
  check_totals(record);
}

std::vector<CardIndex> overfull_cards(const NodeRecord& record) {
  const auto overfull_of = [](const std::vector<Card>& cards) {
    std::vector<CardIndex> overfull;
    for (const Card& card : cards) {
      if (!card.used.fits_in(card.capacity)) overfull.push_back(card.index);
    }
    return overfull;
  };
  std::vector<CardIndex> most = overfull_of(record.node.cards);
  if (most.empty() || record.drifting == 0) return most;
  Node known = record.node;
  for (const Entry* entry : record.claims) {
    if (entry->view.claim.placement) continue;
    for (const CardHold& hold : entry->view.holds) known.find(hold.card)->used -= hold.share;
  }
  return overfull_of(known.cards);
}

}  // namespace mgpu::extender
