#include "extender/ledger/offer_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "extender/ledger/limits.h"

namespace mgpu::extender {

const NominatedPlacement& Offer::on(std::string_view node) const {
  const auto found = std::ranges::find_if(
      placements, [&](const NominatedPlacement& one) { return one.node.str() == node; });
  MGPU_CHECK(found != placements.end(), "an offer has a placement on the node that it counts on");
  return *found;
}

const Offer* OfferTable::find(const PodUid& uid) const {
  const auto at = offers_.find(uid);
  return at == offers_.end() ? nullptr : &at->second;
}

bool OfferTable::is_consistent() const {
  std::size_t waiting = 0;
  std::size_t counted = 0;
  for (const auto& [uid, offer] : offers_) {
    if (offer.next) ++waiting;
    if (offer.counted_on.empty()) {
      if (offer.counted_until != Instant::max()) return false;
      continue;
    }
    ++counted;
    const auto& pods = pods_counted_on(offer.counted_on);
    if (std::ranges::count(pods, uid) != 1) return false;
  }
  std::size_t by_node = 0;
  for (const auto& [node, pods] : counted_) {
    if (pods.empty()) return false;
    by_node += pods.size();
  }
  std::size_t by_namespace = 0;
  for (const auto& [name_space, offers] : of_namespace_) by_namespace += offers;
  return waiting == waiting_ && counted == pods_counted_ && by_node == pods_counted_ &&
         by_namespace == offers_.size();
}

void OfferTable::check() const {
  MGPU_DEBUG_CHECK(offers_.size() > kOffersCheckedMax || is_consistent(),
                   "what is counted of the offers equals the offers");
}

OfferTable::At OfferTable::add(const PodUid& uid, Offer offer) {
  make_room(offer.name_space);
  ++of_namespace_[offer.name_space];
  const auto [at, is_new] = offers_.emplace(uid, std::move(offer));
  MGPU_CHECK(is_new, "a pod has one offer");
  MGPU_DEBUG_CHECK(offers_.size() <= kNominationsMax, "the offers are bounded");
  check();
  return at;
}

void OfferTable::make_room(const std::string& name_space) {
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

OfferTable::At OfferTable::erase(At at) {
  stop_counting(at);
  const auto of_namespace = of_namespace_.find(at->second.name_space);
  if (--of_namespace->second == 0) of_namespace_.erase(of_namespace);
  const At next = offers_.erase(at);
  check();
  return next;
}

void OfferTable::count_on(At at, const NodeName& node) {
  MGPU_DEBUG_CHECK(at->second.counted_on.empty(), "an offer counts on one node");
  const auto& offered = at->second.placements;
  if (std::ranges::find(offered, node, &NominatedPlacement::node) == offered.end()) return;
  at->second.counted_on = node.str();
  counted_[node.str()].push_back(at->first);
  ++pods_counted_;
  check();
}

void OfferTable::stop_counting(At at) {
  Offer& offer = at->second;
  if (offer.counted_on.empty()) return;
  const auto counted = counted_.find(offer.counted_on);
  MGPU_CHECK(counted != counted_.end() && std::erase(counted->second, at->first) == 1,
             "a counted nomination is found by its node");
  if (counted->second.empty()) counted_.erase(counted);
  --pods_counted_;
  offer.counted_on.clear();
  offer.counted_until = offer.latest = Instant::max();
  add_turn(offer.next);
  set_next(offer, {});
  if (std::exchange(offer.awaited, false)) ++releases_;
  check();
}

const std::vector<PodUid>& OfferTable::pods_counted_on(std::string_view node) const {
  static const std::vector<PodUid> none;
  const auto at = counted_.find(node);
  return at == counted_.end() ? none : at->second;
}

const NominatedPlacement* OfferTable::counted(const PodUid& uid) const {
  const Offer* offer = find(uid);
  return offer == nullptr || offer->counted_on.empty() ? nullptr : &offer->on(offer->counted_on);
}

bool OfferTable::is_counted_on(const PodUid& uid, std::string_view node) const {
  const Offer* offer = find(uid);
  return offer != nullptr && offer->counted_on == node;
}

void OfferTable::set_next(Offer& offer, std::optional<Turn> next) {
  MGPU_DEBUG_CHECK(!offer.next || waiting_ > 0, "an offer with a pod that waits was counted");
  if (offer.next) --waiting_;
  if (next) ++waiting_;
  offer.next = std::move(next);
}

void OfferTable::end_waiting(const PodUid& uid) {
  std::erase_if(turns_, [&](const Turn& turn) { return turn.pod.uid == uid; });
  if (waiting_ == 0) return;
  for (auto& [other, offer] : offers_)
    if (offer.next && offer.next->pod.uid == uid) set_next(offer, {});
}

void OfferTable::add_turn(std::optional<Turn> turn) {
  if (turn) turns_.push_back(*std::move(turn));
}

std::vector<Turn> OfferTable::take_turns() {
  return std::exchange(turns_, {});
}

}  // namespace mgpu::extender
