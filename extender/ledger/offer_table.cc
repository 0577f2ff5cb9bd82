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

OfferTable::At OfferTable::add(const PodUid& uid, Offer offer) {
  make_room(offer.name_space);
  ++of_namespace_[offer.name_space];
  const auto [at, is_new] = offers_.emplace(uid, std::move(offer));
  MGPU_CHECK(is_new, "a pod has one offer");
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
  return offers_.erase(at);
}

void OfferTable::count_on(At at, const NodeName& node) {
  const auto& offered = at->second.placements;
  if (std::ranges::find(offered, node, &NominatedPlacement::node) == offered.end()) return;
  at->second.counted_on = node.str();
  counted_[node.str()].push_back(at->first);
  ++pods_counted_;
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
