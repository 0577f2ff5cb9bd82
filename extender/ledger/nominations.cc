#include "extender/ledger/nominations.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "extender/ledger/limits.h"
#include "extender/ledger/node_record.h"

namespace mgpu::extender {
namespace {

// Visits what is counted on the node and is not free to the pod.
void each_kept(const OfferTable& table, const DecidedPod& pod, std::string_view node,
               const std::function<void(const Offer&, const NominatedPlacement&)>& visit) {
  if (pod.uid.empty() || !table.any_counted()) return;
  for (const PodUid& uid : table.pods_counted_on(node)) {
    const Offer& offer = table.all().at(uid);
    const bool of_group = !pod.group.empty() && offer.group == pod.group;
    if (uid == pod.uid || (of_group && pod.for_group)) continue;
    const bool goes_first = offer.is_turn && !pod.group.empty() && !pod.for_group;
    if (offer.priority < pod.priority && !of_group && !goes_first) continue;
    if (offer.is_turn && (pod.binds || table.is_counted_on(pod.uid, node))) continue;
    visit(offer, offer.on(node));
  }
}

// Adds what is kept of the node for others to what is used of it. For a turn, without what is kept
// for groups and for turns.
void count_kept(const OfferTable& table, const Share& everywhere, const DecidedPod& pod, Node& node,
                bool for_turn) {
  for (Card& card : node.cards) card.used += at_most_of(card, everywhere);
  each_kept(table, pod, node.name.str(), [&](const Offer& offer, const NominatedPlacement& kept) {
    if (for_turn && (offer.is_turn || !offer.group.empty())) return;
    for (const CardHold& hold : kept.holds) {
      if (Card* card = node.find(hold.card)) card->used += hold.share;
    }
    node.resources_used += kept.resources;
    ++node.pods_counted;
  });
}

// Whether the pod that has the turn waits for another one on the node.
bool goes_on(const OfferTable& table, const PodUid& uid, const Offer& turn) {
  return turn.is_turn &&
         std::ranges::any_of(table.pods_counted_on(turn.counted_on), [&](const PodUid& other) {
           const auto& next = table.all().at(other).next;
           return next && next->pod.uid == uid;
         });
}

void count_group_until(OfferTable& table, const std::string& group, Instant until) {
  if (group.empty()) return;
  for (auto& [uid, offer] : table.all()) {
    if (offer.group != group || offer.counted_on.empty()) continue;
    const Instant most = std::min({until, offer.group_until, offer.latest});
    offer.counted_until = std::max(offer.counted_until, most);
  }
}

}  // namespace

void Nominations::offer(const DecidedPod& pod, std::vector<NominatedPlacement> placements,
                        const NodeName& nominated, Instant until,
                        std::optional<Instant> counted_until) {
  if (!placements.empty()) table_.end_waiting(pod.uid);
  put(pod, std::move(placements), nominated, until, counted_until);
}

void Nominations::put(const DecidedPod& pod, std::vector<NominatedPlacement> placements,
                      const NodeName& nominated, Instant until,
                      std::optional<Instant> counted_until) {
  const std::uint64_t releases = table_.releases();
  std::optional<NominatedPlacement> before;
  bool awaited = false;
  std::optional<Turn> next;
  Instant latest = Instant::max();
  if (const auto earlier = table_.all().find(pod.uid); earlier != table_.all().end()) {
    latest = latest_of(pod.uid);
    awaited = earlier->second.awaited;
    next = earlier->second.next;
    table_.set_next(earlier->second, {});
    if (!counted_until && earlier->second.is_turn && !earlier->second.counted_on.empty())
      counted_until = earlier->second.counted_until;
  }
  NodeName on = nominated;
  if (const NominatedPlacement* kept = table_.counted(pod.uid)) {
    before = *kept;
    // The pod may have been sent before kube-scheduler saw its nomination.
    const bool seen = table_.find(pod.uid)->counted_until == Instant::max();
    if (on.empty() && seen) on = kept->node;
  }
  const auto earlier = table_.all().find(pod.uid);
  if (earlier != table_.all().end()) table_.erase(earlier);
  everywhere_.end_for_group(pod.uid);
  if (placements.empty()) return table_.add_turn(std::move(next));
  if (placements.size() > kNominatedNodesMax) placements.resize(kNominatedNodesMax);
  const auto at = table_.add(pod.uid, {.priority = pod.priority,
                                       .name_space = pod.name_space,
                                       .group = pod.group,
                                       .until = until,
                                       .latest = latest,
                                       .placements = std::move(placements),
                                       .counted_on = {},
                                       // A preemptor waits for the end of its own.
                                       .awaited = pod.for_group,
                                       .answer = ++answers_});
  first_end_ = std::min(first_end_, until);
  table_.count_on(at, on);
  if (counted_until) count_until(at, *counted_until);
  const NominatedPlacement* now = table_.counted(pod.uid);
  const bool same =
      before && now != nullptr && before->node == now->node && before->holds == now->holds;
  if (!same) return table_.add_turn(std::move(next));
  // The same cards are kept as before: nothing was released for which other pods are tried again.
  table_.set_releases(releases);
  at->second.awaited |= awaited;
  table_.set_next(at->second, std::move(next));
}

// Without an effect if the pod is nominated already, except on the others of its group.
void Nominations::count_until(OfferTable::At at, Instant until) {
  Offer& offer = at->second;
  if (offer.counted_on.empty()) {
    table_.count_on(at, offer.placements.front().node);
    offer.counted_until = until;
    offer.group_until = until + kGroupReservationLife;
    first_end_ = std::min(first_end_, until);
  }
  count_group_until(table_, offer.group, until);
}

void Nominations::keep_group(const std::string& group, Instant now) {
  if (group.empty()) return;
  for (auto& [uid, offer] : table_.all()) {
    const bool nominated = offer.counted_until == Instant::max();
    if (offer.group != group || offer.counted_on.empty() || nominated) continue;
    offer.latest = std::min(offer.latest, now + kGroupRetriesLife);
    const Instant until = std::min(now + kGroupRetryLife, offer.latest);
    offer.counted_until = std::max(offer.counted_until, until);
    offer.until = std::max(offer.until, until);
  }
}

void Nominations::keep_member(const DecidedPod& pod, NominatedPlacement cards, Instant now,
                              Instant latest) {
  latest = std::min(latest, now + kGroupRetriesLife);
  const Instant until = std::min(now + kGroupRetryLife, latest);
  if (pod.group.empty() || until <= now) return;
  offer(pod, {std::move(cards)}, {}, until, until);
  table_.all().at(pod.uid).latest = latest;
}

void Nominations::nominate(const PodUid& uid, const NodeName& node) {
  const auto at = table_.all().find(uid);
  if (at == table_.all().end()) return;
  Offer& offer = at->second;
  const bool offered = std::ranges::find(offer.placements, node, &NominatedPlacement::node) !=
                       offer.placements.end();
  // That may be older than the answer, which ends by itself.
  if (!offered && offer.counted_until != Instant::max()) return;
  offer.counted_until = Instant::max();
  if (offer.counted_on == node.str()) return;
  table_.stop_counting(at);
  table_.count_on(at, node);
}

std::vector<NodeName> Nominations::nodes_of(const std::string& group) const {
  std::vector<NodeName> nodes;
  for (const auto& [uid, offer] : table_.all()) {
    if (offer.group != group) continue;
    for (const NominatedPlacement& placement : offer.placements) nodes.push_back(placement.node);
  }
  return nodes;
}

void Nominations::replace(const std::vector<Nominated>& nominated) {
  const std::map<PodUid, NodeName> nodes(nominated.begin(), nominated.end());
  for (const auto& [uid, offer] : table_.all()) {
    const auto found = nodes.find(uid);
    const bool was_nominated = offer.counted_until == Instant::max() && !offer.counted_on.empty();
    if (found != nodes.end()) {
      nominate(uid, found->second);
    } else if (was_nominated) {
      nominate(uid, {});
    }
  }
}

void Nominations::end(const PodUid& uid) {
  const auto at = table_.all().find(uid);
  if (at != table_.all().end()) table_.erase(at);
  table_.end_waiting(uid);
}

void Nominations::end_with_cards(const PodUid& uid) {
  const auto at = table_.all().find(uid);
  if (at != table_.all().end()) table_.set_next(at->second, {});
  end(uid);
}

bool Nominations::answered_since(const PodUid& uid, std::uint64_t answers) const {
  const Offer* offer = table_.find(uid);
  return offer != nullptr && offer->answer > answers;
}

Instant Nominations::latest_of(const PodUid& uid) const {
  const Offer* offer = table_.find(uid);
  return offer == nullptr || offer->is_turn ? Instant::max() : offer->latest;
}

void Nominations::end_assumed(const PodUid& uid, const NodeName& node,
                              const std::vector<CardHold>& holds) {
  const NominatedPlacement* kept = table_.counted(uid);
  const bool same = kept != nullptr && kept->node == node && kept->holds == holds;
  const std::uint64_t releases = table_.releases();
  end_with_cards(uid);
  if (same) table_.set_releases(releases);
}

void Nominations::expire(Instant now) {
  everywhere_.expire(now);
  MGPU_DEBUG_CHECK(now >= first_end_ || table_.all().size() > kOffersCheckedMax ||
                       std::ranges::none_of(table_.all(),
                                            [now](const auto& one) {
                                              return std::min(one.second.until,
                                                              one.second.counted_until) <= now;
                                            }),
                   "nothing ends before the first end that was noted");
  if (now < first_end_ && !table_.has_turns()) return;
  first_end_ = Instant::max();
  for (auto at = table_.all().begin(); at != table_.all().end();) {
    if (at->second.counted_until <= now && goes_on(table_, at->first, at->second))
      at->second.until = at->second.counted_until = std::min(now + kTurnLife, at->second.latest);
    if (at->second.counted_until <= now) table_.stop_counting(at);
    if (at->second.until <= now) {
      at = table_.erase(at);
      continue;
    }
    first_end_ = std::min({first_end_, at->second.until, at->second.counted_until});
    ++at;
  }
  for (const Turn& turn : table_.take_turns()) give_turn(turn, now);
}

void Nominations::give_turn(const Turn& turn, Instant now) {
  const PodUid& uid = turn.pod.uid;
  const std::string& node = turn.cards.node.str();
  const Offer* own = table_.find(uid);
  const bool has_cards = own != nullptr && !own->counted_on.empty();
  if (has_cards && !(own->is_turn && own->counted_on == node)) return;
  const Instant latest = has_cards ? own->latest : now + kTurnsLife;
  const Instant until = std::min(now + kTurnLife, latest);
  for (const PodUid& other : table_.pods_counted_on(node)) {
    Offer& offer = table_.all().at(other);
    if (!offer.is_turn || other == uid) continue;
    if (!offer.next) table_.set_next(offer, turn);
    return;
  }
  put(turn.pod, {turn.cards}, {}, until, until);
  table_.all().at(uid).is_turn = true;
  table_.all().at(uid).latest = latest;
  MGPU_DEBUG_CHECK(table_.is_counted_on(uid, node), "a turn counts on its node");
}

void Nominations::end_on(const NodeName& node, const Node* now) {
  const auto ends = [&](const NominatedPlacement& placement) {
    if (placement.node != node) return false;
    return now == nullptr || !std::ranges::all_of(placement.holds, [now](const CardHold& hold) {
             const Card* card = now->find(hold.card);
             return card != nullptr && card->usable() && hold.share.fits_in(card->capacity);
           });
  };
  for (auto at = table_.all().begin(); at != table_.all().end();) {
    const auto counted = at->second.counted_on;
    if (std::erase_if(at->second.placements, ends) > 0 && counted == node.str())
      table_.stop_counting(at);
    at = at->second.placements.empty() ? table_.erase(at) : std::next(at);
  }
}

bool Nominations::finds_reservations(const DecidedPod& pod, std::string_view node) const {
  bool any = false;
  each_kept(table_, pod, node, [&any](const Offer&, const NominatedPlacement&) { any = true; });
  return any;
}

void Nominations::count(const DecidedPod& pod, Node& node) const {
  count_kept(table_, everywhere_.kept_from(pod.uid, pod.group), pod, node, false);
}

void Nominations::count_for_turn(const DecidedPod& pod, Node& node) const {
  count_kept(table_, everywhere_.kept_from(pod.uid, pod.group), pod, node, true);
}

void Nominations::waits_for(const DecidedPod& pod, const NominatedPlacement& cards) {
  bool any = everywhere_.any();  // whose end is a release in any case
  for (const PodUid& uid : table_.pods_counted_on(cards.node.str())) {
    if (uid == pod.uid) continue;
    Offer& offer = table_.all().at(uid);
    any = true;
    if (pod.group.empty() || offer.group != pod.group) offer.awaited = true;
    const bool has_turn =
        pod.group.empty() && !cards.holds.empty() && (!offer.group.empty() || offer.is_turn);
    const bool is_next = !offer.next || offer.next->pod.uid == pod.uid;
    if (has_turn && is_next) table_.set_next(offer, Turn{pod, cards});
  }
  if (!any) table_.add_release();  // It has ended meanwhile.
}

}  // namespace mgpu::extender
