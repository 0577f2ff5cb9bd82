#include "extender/ledger/nominations.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "extender/ledger/limits.h"
#include "extender/ledger/node_record.h"

namespace mgpu::extender {

void Nominations::offer(const DecidedPod& pod, std::vector<NominatedPlacement> placements,
                        const NodeName& nominated, Instant until,
                        std::optional<Instant> counted_until) {
  if (!placements.empty()) end_waiting(pod.uid);
  put(pod, std::move(placements), nominated, until, counted_until);
}

void Nominations::put(const DecidedPod& pod, std::vector<NominatedPlacement> placements,
                      const NodeName& nominated, Instant until,
                      std::optional<Instant> counted_until) {
  const std::uint64_t releases = releases_;
  std::optional<NominatedPlacement> before;
  bool awaited = false;
  std::optional<Turn> next;
  Instant latest = Instant::max();
  if (const auto earlier = offers_.find(pod.uid); earlier != offers_.end()) {
    latest = latest_of(pod.uid);
    awaited = earlier->second.awaited;
    next = earlier->second.next;
    set_next(earlier->second, {});
    if (!counted_until && earlier->second.is_turn && !earlier->second.counted_on.empty())
      counted_until = earlier->second.counted_until;
  }
  NodeName on = nominated;
  if (const NominatedPlacement* kept = counted(pod.uid)) {
    before = *kept;
    // The pod may have been sent before kube-scheduler saw its nomination.
    const bool seen = offers_.at(pod.uid).counted_until == Instant::max();
    if (on.empty() && seen) on = kept->node;
  }
  const auto earlier = offers_.find(pod.uid);
  if (earlier != offers_.end()) erase(earlier);
  everywhere_.end_for_group(pod.uid);
  if (placements.empty()) return begin_turn_later(std::move(next));
  if (placements.size() > kNominatedNodesMax) placements.resize(kNominatedNodesMax);
  make_room(pod.name_space);
  ++of_namespace_[pod.name_space];
  const auto at = offers_
                      .emplace(pod.uid, Offer{.priority = pod.priority,
                                              .name_space = pod.name_space,
                                              .group = pod.group,
                                              .until = until,
                                              .latest = latest,
                                              .placements = std::move(placements),
                                              .counted_on = {},
                                              // A preemptor waits for the end of its own.
                                              .awaited = pod.for_group,
                                              .answer = ++answers_})
                      .first;
  first_end_ = std::min(first_end_, until);
  count_on(at, on);
  if (counted_until) count_until(at, *counted_until);
  const NominatedPlacement* now = counted(pod.uid);
  const bool same =
      before && now != nullptr && before->node == now->node && before->holds == now->holds;
  if (!same) return begin_turn_later(std::move(next));
  // The same cards are kept as before: nothing was released for which other pods are tried again.
  releases_ = releases;
  at->second.awaited |= awaited;
  set_next(at->second, std::move(next));
}

void Nominations::make_room(const std::string& name_space) {
  const auto own = of_namespace_.find(name_space);
  const bool own_full = !name_space.empty() && own != of_namespace_.end() &&
                        own->second >= kNominationsOfNamespaceMax;
  if (!own_full && offers_.size() < kNominationsMax) return;
  erase(std::ranges::min_element(offers_, {}, [&](const auto& entry) {
    const Offer& offer = entry.second;
    return std::tuple(own_full && offer.name_space != name_space, !offer.counted_on.empty(),
                      offer.priority, offer.until);
  }));
}

// Without an effect if the pod is nominated already, except on the others of its group.
void Nominations::count_until(Offers::iterator at, Instant until) {
  Offer& offer = at->second;
  if (offer.counted_on.empty()) {
    count_on(at, offer.placements.front().node);
    offer.counted_until = until;
    offer.group_until = until + kGroupReservationLife;
    first_end_ = std::min(first_end_, until);
  }
  count_group_until(offer.group, until);
}

void Nominations::count_group_until(const std::string& group, Instant until) {
  if (group.empty()) return;
  for (auto& [uid, offer] : offers_) {
    if (offer.group != group || offer.counted_on.empty()) continue;
    const Instant most = std::min({until, offer.group_until, offer.latest});
    offer.counted_until = std::max(offer.counted_until, most);
  }
}

void Nominations::keep_group(const std::string& group, Instant now) {
  if (group.empty()) return;
  for (auto& [uid, offer] : offers_) {
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
  offers_.at(pod.uid).latest = latest;
}

void Nominations::nominate(const PodUid& uid, const NodeName& node) {
  const auto at = offers_.find(uid);
  if (at == offers_.end()) return;
  Offer& offer = at->second;
  const bool offered = std::ranges::find(offer.placements, node, &NominatedPlacement::node) !=
                       offer.placements.end();
  // That may be older than the answer, which ends by itself.
  if (!offered && offer.counted_until != Instant::max()) return;
  offer.counted_until = Instant::max();
  if (offer.counted_on == node.str()) return;
  stop_counting(at);
  count_on(at, node);
}

void Nominations::count_on(Offers::iterator at, const NodeName& node) {
  const auto& offered = at->second.placements;
  if (std::ranges::find(offered, node, &NominatedPlacement::node) == offered.end()) return;
  at->second.counted_on = node.str();
  counted_[node.str()].push_back(at->first);
  ++counted_pods_;
}

const std::vector<PodUid>& Nominations::pods_counted_on(std::string_view node) const {
  static const std::vector<PodUid> none;
  const auto at = counted_.find(node);
  return at == counted_.end() ? none : at->second;
}

const NominatedPlacement* Nominations::counted(const PodUid& uid) const {
  const auto at = offers_.find(uid);
  if (at == offers_.end() || at->second.counted_on.empty()) return nullptr;
  return &*std::ranges::find(at->second.placements, NodeName(at->second.counted_on),
                             &NominatedPlacement::node);
}

bool Nominations::is_counted_on(const PodUid& uid, std::string_view node) const {
  const auto at = offers_.find(uid);
  return at != offers_.end() && at->second.counted_on == node;
}

std::vector<NodeName> Nominations::nodes_of(const std::string& group) const {
  std::vector<NodeName> nodes;
  for (const auto& [uid, offer] : offers_) {
    if (offer.group != group) continue;
    for (const NominatedPlacement& placement : offer.placements) nodes.push_back(placement.node);
  }
  return nodes;
}

void Nominations::replace(const std::vector<Nominated>& nominated) {
  const std::map<PodUid, NodeName> nodes(nominated.begin(), nominated.end());
  for (const auto& [uid, offer] : offers_) {
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
  const auto at = offers_.find(uid);
  if (at != offers_.end()) erase(at);
  end_waiting(uid);
}

void Nominations::end_with_cards(const PodUid& uid) {
  const auto at = offers_.find(uid);
  if (at != offers_.end()) set_next(at->second, {});
  end(uid);
}

void Nominations::end_waiting(const PodUid& uid) {
  std::erase_if(turns_, [&](const Turn& turn) { return turn.pod.uid == uid; });
  if (waiting_ == 0) return;
  for (auto& [other, offer] : offers_)
    if (offer.next && offer.next->pod.uid == uid) set_next(offer, {});
}

void Nominations::set_next(Offer& offer, std::optional<Turn> next) {
  if (offer.next) --waiting_;
  if (next) ++waiting_;
  offer.next = std::move(next);
}

void Nominations::begin_turn_later(std::optional<Turn> turn) {
  if (!turn) return;
  turns_.push_back(*std::move(turn));
  first_end_ = Instant::min();
}

bool Nominations::answered_since(const PodUid& uid, std::uint64_t answers) const {
  const auto at = offers_.find(uid);
  return at != offers_.end() && at->second.answer > answers;
}

Instant Nominations::latest_of(const PodUid& uid) const {
  const auto at = offers_.find(uid);
  return at == offers_.end() || at->second.is_turn ? Instant::max() : at->second.latest;
}

void Nominations::end_assumed(const PodUid& uid, const NodeName& node,
                              const std::vector<CardHold>& holds) {
  const NominatedPlacement* kept = counted(uid);
  const bool same = kept != nullptr && kept->node == node && kept->holds == holds;
  const std::uint64_t releases = releases_;
  end_with_cards(uid);
  if (same) releases_ = releases;
}

void Nominations::expire(Instant now) {
  everywhere_.expire(now);
  if (now < first_end_) return;
  first_end_ = Instant::max();
  for (auto at = offers_.begin(); at != offers_.end();) {
    if (at->second.counted_until <= now && goes_on(at))
      at->second.until = at->second.counted_until = std::min(now + kTurnLife, at->second.latest);
    if (at->second.counted_until <= now) stop_counting(at);
    if (at->second.until <= now) {
      at = erase(at);
      continue;
    }
    first_end_ = std::min({first_end_, at->second.until, at->second.counted_until});
    ++at;
  }
  for (const Turn& turn : std::exchange(turns_, {})) give_turn(turn, now);
}

void Nominations::give_turn(const Turn& turn, Instant now) {
  const PodUid& uid = turn.pod.uid;
  const std::string& node = turn.cards.node.str();
  const auto own = offers_.find(uid);
  const bool has_cards = own != offers_.end() && !own->second.counted_on.empty();
  if (has_cards && !(own->second.is_turn && own->second.counted_on == node)) return;
  const Instant latest = has_cards ? own->second.latest : now + kTurnsLife;
  const Instant until = std::min(now + kTurnLife, latest);
  for (const PodUid& other : pods_counted_on(node)) {
    Offer& offer = offers_.at(other);
    if (!offer.is_turn || other == uid) continue;
    if (!offer.next) set_next(offer, turn);
    return;
  }
  put(turn.pod, {turn.cards}, {}, until, until);
  offers_.at(uid).is_turn = true;
  offers_.at(uid).latest = latest;
}

// Whether the pod that has the turn waits for another one on the node.
bool Nominations::goes_on(Offers::const_iterator turn) const {
  return turn->second.is_turn &&
         std::ranges::any_of(pods_counted_on(turn->second.counted_on), [&](const PodUid& uid) {
           const auto& next = offers_.at(uid).next;
           return next && next->pod.uid == turn->first;
         });
}

void Nominations::end_on(const NodeName& node, const Node* now) {
  const auto ends = [&](const NominatedPlacement& placement) {
    if (placement.node != node) return false;
    return now == nullptr || !std::ranges::all_of(placement.holds, [now](const CardHold& hold) {
             const Card* card = now->find(hold.card);
             return card != nullptr && card->usable() && hold.share.fits_in(card->capacity);
           });
  };
  for (auto at = offers_.begin(); at != offers_.end();) {
    const auto counted = at->second.counted_on;
    if (std::erase_if(at->second.placements, ends) > 0 && counted == node.str()) stop_counting(at);
    at = at->second.placements.empty() ? erase(at) : std::next(at);
  }
}

bool Nominations::finds_reservations(const DecidedPod& pod, std::string_view node) const {
  bool any = false;
  each_kept(pod, node, [&any](const Offer&, const NominatedPlacement&) { any = true; });
  return any;
}

void Nominations::count(const DecidedPod& pod, Node& node) const {
  count(pod, node, false);
}

void Nominations::count_for_turn(const DecidedPod& pod, Node& node) const {
  count(pod, node, true);
}

void Nominations::count(const DecidedPod& pod, Node& node, bool for_turn) const {
  const Share everywhere = everywhere_.kept_from(pod.uid, pod.group);
  for (Card& card : node.cards) card.used += at_most_of(card, everywhere);
  each_kept(pod, node.name.str(), [&](const Offer& offer, const NominatedPlacement& kept) {
    if (for_turn && (offer.is_turn || !offer.group.empty())) return;
    for (const CardHold& hold : kept.holds) {
      if (Card* card = node.find(hold.card)) card->used += hold.share;
    }
    node.resources_used += kept.resources;
    ++node.pods_counted;
  });
}

Nominations::Offers::iterator Nominations::erase(Offers::iterator at) {
  stop_counting(at);
  const auto of_namespace = of_namespace_.find(at->second.name_space);
  if (--of_namespace->second == 0) of_namespace_.erase(of_namespace);
  return offers_.erase(at);
}

void Nominations::stop_counting(Offers::iterator at) {
  if (at->second.counted_on.empty()) return;
  const auto counted = counted_.find(at->second.counted_on);
  MGPU_CHECK(counted != counted_.end() && std::erase(counted->second, at->first) == 1,
             "a counted nomination is found by its node");
  if (counted->second.empty()) counted_.erase(counted);
  --counted_pods_;
  at->second.counted_on.clear();
  at->second.counted_until = at->second.latest = Instant::max();
  begin_turn_later(at->second.next);
  set_next(at->second, {});
  if (std::exchange(at->second.awaited, false)) ++releases_;
}

void Nominations::waits_for(const DecidedPod& pod, const NominatedPlacement& cards) {
  bool any = everywhere_.any();  // whose end is a release in any case
  for (const PodUid& uid : pods_counted_on(cards.node.str())) {
    if (uid == pod.uid) continue;
    Offer& offer = offers_.at(uid);
    any = true;
    if (pod.group.empty() || offer.group != pod.group) offer.awaited = true;
    const bool has_turn =
        pod.group.empty() && !cards.holds.empty() && (!offer.group.empty() || offer.is_turn);
    const bool is_next = !offer.next || offer.next->pod.uid == pod.uid;
    if (has_turn && is_next) set_next(offer, Turn{pod, cards});
  }
  if (!any) ++releases_;  // It has ended meanwhile.
}

void Nominations::each_kept(
    const DecidedPod& pod, std::string_view node,
    const std::function<void(const Offer&, const NominatedPlacement&)>& visit) const {
  if (counted_.empty() || pod.uid.empty()) return;
  for (const PodUid& uid : pods_counted_on(node)) {
    const Offer& offer = offers_.at(uid);
    const bool of_group = !pod.group.empty() && offer.group == pod.group;
    if (uid == pod.uid || (of_group && pod.for_group)) continue;
    const bool goes_first = offer.is_turn && !pod.group.empty() && !pod.for_group;
    if (offer.priority < pod.priority && !of_group && !goes_first) continue;
    if (offer.is_turn && (pod.binds || is_counted_on(pod.uid, node))) continue;
    const auto placement = std::ranges::find_if(
        offer.placements, [&](const NominatedPlacement& one) { return one.node.str() == node; });
    visit(offer, *placement);
  }
}

}  // namespace mgpu::extender
