#include "extender/ledger/reservations.h"

#include <utility>

#include "extender/ledger/ledger_state.h"
#include "extender/placement/holds.h"

namespace mgpu::extender {

void Reservations::expect(const PodUid& uid, const NodeName& node, const GpuRequest& request,
                          const Placement& placement, Instant now, Instant until) {
  const MutexLock lock(state_.mutex);
  state_.expected.expire(now);
  state_.expected.end(uid);
  NodeRecord* record = state_.find_present(node.str());
  if (record == nullptr || until <= now) return;
  state_.expected.add(uid, *record, holds(record->node, request, placement), until);
}

void Reservations::end_expectation(const PodUid& uid) {
  const MutexLock lock(state_.mutex);
  state_.expected.end(uid);
}

void Reservations::offer_nomination(const DecidedPod& pod,
                                    std::vector<NominatedPlacement> placements,
                                    const NodeName& nominated, Instant until) {
  const MutexLock lock(state_.mutex);
  state_.nominations.offer(pod, std::move(placements), nominated, until);
}

void Reservations::reserve(const DecidedPod& pod, NominatedPlacement placement,
                           const NodeName& nominated, Instant until,
                           std::optional<Instant> counted_until) {
  const MutexLock lock(state_.mutex);
  state_.nominations.offer(pod, {std::move(placement)}, nominated, until, counted_until);
}

std::optional<std::uint64_t> Reservations::reserve_all(std::vector<Reservation> pods,
                                                       std::uint64_t answers, Instant until,
                                                       Instant counted_until) {
  const MutexLock lock(state_.mutex);
  for (const Reservation& one : pods)
    if (state_.nominations.answered_since(one.pod.uid, answers)) return std::nullopt;
  for (Reservation& one : pods)
    state_.nominations.offer(one.pod, {std::move(one.placement)}, {}, until, counted_until);
  return state_.nominations.answers();
}

std::uint64_t Reservations::answers() const {
  const MutexLock lock(state_.mutex);
  return state_.nominations.answers();
}

void Reservations::keep_group(const std::string& group, Instant now) {
  const MutexLock lock(state_.mutex);
  state_.nominations.expire(now);
  state_.nominations.keep_group(group, now);
}

void Reservations::end_nomination(const PodUid& uid) {
  const MutexLock lock(state_.mutex);
  state_.nominations.end(uid);
}

void Reservations::nominate(const PodUid& uid, const NodeName& node) {
  const MutexLock lock(state_.mutex);
  state_.nominations.nominate(uid, node);
}

void Reservations::replace_nominated(const std::vector<Nominated>& nominated) {
  const MutexLock lock(state_.mutex);
  state_.nominations.replace(nominated);
}

std::vector<NodeName> Reservations::nodes_of_group(const std::string& group) const {
  const MutexLock lock(state_.mutex);
  return state_.nominations.nodes_of(group);
}

void Reservations::keep_everywhere(const PodUid& uid, const Share& most, Instant until,
                                   const std::string& group) {
  const MutexLock lock(state_.mutex);
  state_.nominations.everywhere().keep(uid, most, until, group);
}

void Reservations::end_everywhere(const PodUid& uid) {
  const MutexLock lock(state_.mutex);
  state_.nominations.everywhere().end(uid);
}

void Reservations::end_kept_for_group(const PodUid& uid) {
  const MutexLock lock(state_.mutex);
  state_.nominations.everywhere().end_for_group(uid);
}

}  // namespace mgpu::extender
