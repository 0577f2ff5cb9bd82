#include "extender/ledger/expected_placements.h"

#include <utility>

#include "common/base/check.h"
#include "extender/ledger/limits.h"

namespace mgpu::extender {

void ExpectedPlacements::add(const PodUid& uid, NodeRecord& node, std::vector<CardHold> holds,
                             Instant until) {
  end(uid);
  if (by_end_.size() >= kExpectedPlacementsMax) erase(by_end_.begin());
  add_expected(node, holds);
  by_uid_[uid] = by_end_.emplace(until, Expected{uid, &node, std::move(holds)});
  MGPU_DEBUG_CHECK(node.expectations <= size(), "what a node counts is in the table");
  MGPU_CHECK(by_uid_.size() == by_end_.size() && size() <= kExpectedPlacementsMax,
             "one expected placement for each pod, within the limit");
}

void ExpectedPlacements::end(const PodUid& uid) {
  const auto found = by_uid_.find(uid);
  if (found != by_uid_.end()) erase(found->second);
}

void ExpectedPlacements::expire(Instant now) {
  while (!by_end_.empty() && by_end_.begin()->first <= now) erase(by_end_.begin());
}

void ExpectedPlacements::end_on(NodeRecord& node) {
  for (auto at = by_end_.begin(); at != by_end_.end() && node.expectations > 0;)
    at = at->second.node == &node ? erase(at) : std::next(at);
  MGPU_CHECK(node.expectations == 0, "no expected placement outlives the cards of its node");
}

ExpectedPlacements::ByEnd::iterator ExpectedPlacements::erase(ByEnd::iterator at) {
  MGPU_DEBUG_CHECK(by_uid_.at(at->second.uid) == at, "an expected placement is found by its pod");
  remove_expected(*at->second.node, at->second.holds);
  by_uid_.erase(at->second.uid);
  return by_end_.erase(at);
}

}  // namespace mgpu::extender
