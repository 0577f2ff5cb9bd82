#include "extender/ledger/node_record.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace mgpu::extender {
namespace {

Card card_from(CardFacts facts) {
  Card card;
  card.healthy = facts.healthy();
  card.index = facts.index;
  card.uuid = std::move(facts.uuid);
  card.model = std::move(facts.model);
  card.capacity = {kWholeCard, facts.memory};
  card.kind = kind_id(card.model, facts.memory);
  return card;
}

void count_pod(Node& node, std::int32_t cards, std::int32_t change) {
  auto at = std::ranges::lower_bound(node.pods, cards, {}, &PodsByCards::cards);
  if (at == node.pods.end() || at->cards != cards) at = node.pods.insert(at, {cards, 0});
  at->pods += change;
  if (at->pods == 0) node.pods.erase(at);
}

bool same(const Card& card, const CardFacts& facts) {
  return card.index == facts.index && card.uuid == facts.uuid && card.model == facts.model &&
         card.capacity.memory == facts.memory && card.healthy == facts.healthy();
}

void mark_uncertain(NodeRecord& record) {
  for (Card& card : record.node.cards) card.uncertain = record.blocking > 0;
}

// The drift that depends on the node; the others came with the claim and hide its placement. A
// node that is not there has no cards to miss.
void find_unknown_cards(const NodeRecord& record, ClaimView& view) {
  view.claim.drift = Drift::kNone;
  view.claim.drift_detail.clear();
  if (!record.present) return;
  for (const CardHold& hold : view.holds) {
    if (record.node.find(hold.card) != nullptr) continue;
    view.claim.drift = Drift::kUnknownCard;
    view.claim.drift_detail = "node " + record.node.name.str() + " has no card " +
                              std::to_string(hold.card.value()) + " now";
    return;
  }
}

// Cards that the node does not have are passed over: should one appear, everything is counted anew.
void count(NodeRecord& record, Entry& entry) {
  ClaimView& view = entry.view;
  if (view.claim.placement) {
    view.holds = holds(record.node, view.claim.request, *view.claim.placement);
    view.holds.shrink_to_fit();
    find_unknown_cards(record, view);
  } else {
    ++record.blocking;
  }
  if (view.claim.drift != Drift::kNone) ++record.drifting;
  for (const CardHold& hold : view.holds)
    if (Card* card = record.node.find(hold.card)) card->used += hold.share;
  if (!view.holds.empty()) count_pod(record.node, cards_counted(view.holds), +1);
}

void count_all(NodeRecord& record) {
  for (Card& card : record.node.cards) card.used = Share{};
  record.node.pods.clear();
  record.blocking = 0;
  record.drifting = 0;
  for (Entry* entry : record.claims) count(record, *entry);
  mark_uncertain(record);
}

bool cards_hold(const NodeRecord& record) {
  std::vector<Share> claimed(record.node.cards.size());
  for (const Entry* entry : record.claims) {
    for (const CardHold& hold : entry->view.holds) {
      const Card* card = record.node.find(hold.card);
      if (card != nullptr)
        claimed[static_cast<std::size_t>(card - record.node.cards.data())] += hold.share;
    }
  }
  const bool uncertain = record.blocking > 0;
  auto sum = claimed.begin();
  return std::ranges::all_of(record.node.cards, [&](const Card& card) {
    return card.used == *sum++ && card.uncertain == uncertain &&
           (record.expectations > 0 || card.expected.zero());
  });
}

bool claims_hold(const NodeRecord& record) {
  std::size_t blocking = 0;
  std::size_t drifting = 0;
  NodeResources host;
  Node counted;
  for (const Entry* entry : record.claims) {
    const ClaimView& view = entry->view;
    if (entry->home != &record) return false;
    blocking += view.claim.placement ? 0 : 1;
    drifting += view.claim.drift != Drift::kNone ? 1 : 0;
    host += view.claim.host;
    if (!view.holds.empty()) count_pod(counted, cards_counted(view.holds), +1);
  }
  // Pods without cards add to resources_used too, and are not in this list.
  const bool host_holds = record.plain > 0 ? host.fits_in(record.node.resources_used)
                                           : host == record.node.resources_used;
  return blocking == record.blocking && drifting == record.drifting && host_holds &&
         counted.pods == record.node.pods;
}

// More claims than any node has, kubelet runs some hundred pods: there, counting them anew after
// each change would take most of a test's time.
constexpr std::size_t kClaimsCountedAnew = 128;

void check_totals(const NodeRecord& record) {
  MGPU_DEBUG_CHECK(record.claims.size() > kClaimsCountedAnew || totals_hold(record),
                   "a node's totals are those of its claims");
}

}  // namespace

bool totals_hold(const NodeRecord& record) {
  return claims_hold(record) && cards_hold(record);
}

bool changes(const NodeRecord& record, const NodeFacts& facts) {
  return !record.present || record.node.allocatable != facts.allocatable ||
         !std::equal(record.node.cards.begin(), record.node.cards.end(), facts.cards.begin(),
                     facts.cards.end(), same);
}

void set_facts(NodeRecord& record, NodeFacts facts) {
  MGPU_CHECK(record.expectations == 0, "cards replaced under expectations");
  record.changed();
  record.present = true;
  record.problem = std::move(facts.problem);
  record.node.allocatable = facts.allocatable;
  record.node.cards.clear();
  record.node.cards.reserve(facts.cards.size());
  for (CardFacts& card : facts.cards) record.node.cards.push_back(card_from(std::move(card)));
  count_all(record);
  check_totals(record);
}

void set_absent(NodeRecord& record) {
  record.changed();
  record.present = false;
  record.problem.clear();
  record.node.cards.clear();
  count_all(record);
  check_totals(record);
}

void add(NodeRecord& record, Entry& entry) {
  MGPU_CHECK(entry.home == nullptr, "a claim on two nodes");
  record.changed();
  entry.home = &record;
  record.claims.push_back(&entry);
  record.node.resources_used += entry.view.claim.host;
  count(record, entry);
  if (!entry.view.claim.placement && record.blocking == 1) mark_uncertain(record);
  check_totals(record);
}

void remove(Entry& entry) {
  NodeRecord& record = *entry.home;
  record.changed();
  const auto place = std::ranges::find(record.claims, &entry);
  MGPU_CHECK(place != record.claims.end(), "a claim that its node does not know");
  record.claims.erase(place);
  entry.home = nullptr;
  record.node.resources_used -= entry.view.claim.host;
  if (!entry.view.holds.empty()) count_pod(record.node, cards_counted(entry.view.holds), -1);
  for (const CardHold& hold : entry.view.holds)
    if (Card* card = record.node.find(hold.card)) card->used -= hold.share;
  if (entry.view.claim.drift != Drift::kNone) --record.drifting;
  if (!entry.view.claim.placement && --record.blocking == 0) mark_uncertain(record);
  check_totals(record);
}

void add_plain(NodeRecord& record, const NodeResources& host) {
  record.changed();
  ++record.plain;
  record.node.resources_used += host;
  check_totals(record);
}

void remove_plain(NodeRecord& record, const NodeResources& host) {
  MGPU_CHECK(record.plain > 0, "a pod without cards that its node does not know");
  record.changed();
  --record.plain;
  record.node.resources_used -= host;
  check_totals(record);
}

void add_expected(NodeRecord& record, const std::vector<CardHold>& holds) {
  record.changed();
  ++record.expectations;
  for (const CardHold& hold : holds)
    if (Card* card = record.node.find(hold.card)) card->expected += hold.share;
}

void remove_expected(NodeRecord& record, const std::vector<CardHold>& holds) {
  MGPU_CHECK(record.expectations > 0, "an expectation that its node does not know");
  record.changed();
  --record.expectations;
  for (const CardHold& hold : holds)
    if (Card* card = record.node.find(hold.card)) card->expected -= hold.share;
  check_totals(record);
}

std::size_t overfull_cards(const NodeRecord& record) {
  return static_cast<std::size_t>(std::ranges::count_if(
      record.node.cards, [](const Card& card) { return !card.used.fits_in(card.capacity); }));
}

}  // namespace mgpu::extender
