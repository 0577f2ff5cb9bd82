#include "extender/ledger/ledger.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "common/base/check.h"
#include "extender/ledger/in_steps.h"
#include "extender/ledger/limits.h"
#include "extender/placement/holds.h"
#include "extender/placement/limits.h"

namespace mgpu::extender {
namespace {

void check_room(const Node& node, const Claim& claim) {
  for (const CardHold& hold : holds(node, claim.request, *claim.placement)) {
    const Card* card = node.find(hold.card);
    MGPU_CHECK(card != nullptr && hold.share.fits_in(card->room()), "placed without room");
  }
}

// The counterpart of check_room, after the claim is counted: no card that it holds a part of is
// over its capacity. (A card may be over-full in a dimension of which the claim holds nothing.)
bool within_capacity(const Entry& entry) {
  return std::ranges::all_of(entry.view.holds, [&](const CardHold& hold) {
    const Card* card = entry.record->node.find(hold.card);
    return card != nullptr && (hold.share.core.zero() || card->used.core <= card->capacity.core) &&
           (hold.share.memory.zero() || card->used.memory <= card->capacity.memory);
  });
}

// The drift of a bound claim where it is another than was reported last.
std::optional<DriftChange> report_drift(Entry& entry) {
  const Claim& claim = entry.view.claim;
  if (std::exchange(entry.reported, claim.drift) == claim.drift) return std::nullopt;
  return DriftChange{claim.pod, claim.node, claim.drift, claim.drift_detail};
}

auto under(Mutex& mutex) {
  return [&mutex](const auto& step) {
    const MutexLock lock(mutex);
    step();
  };
}

}  // namespace

// --- nodes ---------------------------------------------------------------------------------------

void Ledger::replace_nodes(std::vector<NodeFacts> nodes) {
  std::unordered_set<std::string_view> names;
  for (const NodeFacts& node : nodes) names.insert(node.name.str());
  {
    MutexLock lock(state_.mutex);
    state_.each_record(lock, [&](NodeRecord& record) MGPU_REQUIRES(state_.mutex) {
      if (record.present && !names.contains(record.node.name.str())) state_.remove(record);
    });
  }
  in_steps(nodes, under(state_.mutex),
           [this](NodeFacts&& node) MGPU_REQUIRES(state_.mutex) { state_.apply(std::move(node)); });
}

void Ledger::apply_node(NodeFacts node) {
  const MutexLock lock(state_.mutex);
  state_.apply(std::move(node));
}

void Ledger::remove_node(const NodeName& node) {
  const MutexLock lock(state_.mutex);
  NodeRecord* record = state_.find_present(node.str());
  if (record != nullptr) state_.remove(*record);
}

// --- pods ----------------------------------------------------------------------------------------

std::vector<DriftChange> Ledger::replace_pods(std::vector<Claim> claims,
                                              std::vector<NonGpuPod> non_gpu) {
  std::unordered_set<std::string_view> uids;
  for (const Claim& claim : claims) uids.insert(claim.uid.str());
  std::unordered_set<std::string_view> non_gpu_uids;
  for (const NonGpuPod& pod : non_gpu) non_gpu_uids.insert(pod.uid.str());
  each_in_steps(
      state_.claims.entries(), under(state_.mutex), [&](auto& claim) MGPU_REQUIRES(state_.mutex) {
        Entry& entry = claim.second;
        if (entry.view.phase == Phase::kBound && !uids.contains(entry.view.claim.uid.str()))
          state_.release(entry);
      });
  each_in_steps(state_.non_gpu, under(state_.mutex),
                [&](const auto& pod) MGPU_REQUIRES(state_.mutex) {
                  if (!non_gpu_uids.contains(pod.first.str()))
                    state_.remove_non_gpu(PodUid(pod.first));
                });
  in_steps(non_gpu, under(state_.mutex), [this](NonGpuPod&& pod) MGPU_REQUIRES(state_.mutex) {
    state_.set_non_gpu(std::move(pod));
  });
  std::vector<DriftChange> changes;
  in_steps(claims, under(state_.mutex),
           [this, &changes](Claim&& claim) MGPU_REQUIRES(state_.mutex) {
             Entry& entry = state_.confirm(std::move(claim));
             state_.nominations.everywhere().begin(entry.view.claim.group);
             if (changes.size() >= kDriftChangesMax) return;
             if (auto change = report_drift(entry)) changes.push_back(*std::move(change));
           });
  return changes;
}

std::optional<DriftChange> Ledger::apply_pod(Claim claim) {
  const MutexLock lock(state_.mutex);
  return report_drift(state_.confirm(std::move(claim)));
}

void Ledger::apply_non_gpu(NonGpuPod pod) {
  const MutexLock lock(state_.mutex);
  state_.release_all(pod.uid);
  state_.set_non_gpu(std::move(pod));
}

void Ledger::remove_pod(const PodUid& uid) {
  const MutexLock lock(state_.mutex);
  state_.remove_non_gpu(uid);
  state_.expected.end(uid);
  state_.nominations.end(uid);
  state_.nominations.everywhere().end(uid);
  state_.release_all(uid);
}

// --- bind ----------------------------------------------------------------------------------------

std::variant<Assumed, Reason> Ledger::assume(Claim claim, const Policy& card_policy, Instant now,
                                             const PriceSnapshot* price_snapshot) {
  const MutexLock lock(state_.mutex);
  state_.expected.expire(now);
  state_.expected.end(claim.uid);
  state_.nominations.expire(now);
  const NodeRecord* record = state_.find_present(claim.node.str());
  if (record == nullptr) return Reason::kNodeUnknown;
  const DecidedPod pod{.uid = claim.uid,
                       .priority = claim.priority,
                       .name_space = claim.pod.name_space,
                       .group = claim.group,
                       .binds = true};
  std::optional<Node> reserved;
  if (state_.nominations.has_reservations_on(pod, claim.node.str())) {
    reserved = state_.with_reservations(record->node, pod);
  }
  SearchBudget budget{kPlacementStepsMax};
  const PlacementContext context(claim.request, claim.resources, tie_break_seed_of(claim.uid),
                                 price_snapshot);
  auto result = place(reserved ? *reserved : record->node, context, card_policy, budget);
  if (const Reason* reason = std::get_if<Reason>(&result)) {
    if (!reserved) return *reason;
    SearchBudget other{kPlacementStepsMax};
    return extender::why_not(record->node, claim.request, other).value_or(Reason::kNominated);
  }
  claim.placement = std::move(std::get<Placed>(result).placement);
  check_room(record->node, claim);
  Entry& entry = state_.insert(std::move(claim), Phase::kAssumed, now);
  entry.latest = state_.nominations.latest_of(entry.view.claim.uid);
  state_.nominations.end_assumed(entry.view.claim.uid, entry.view.claim.node, entry.view.holds);
  // A failed bind of another member must not lose its cards.
  state_.nominations.keep_group(entry.view.claim.group, now);
  MGPU_DEBUG_CHECK(within_capacity(entry), "a card over its capacity by an assumed claim");
  return Assumed{entry.id, *entry.view.claim.placement};
}

void Ledger::bound(ClaimId id, Instant now) {
  const MutexLock lock(state_.mutex);
  Entry* accepted = state_.claims.find(id);
  if (accepted == nullptr || accepted->view.phase == Phase::kBound) return;
  accepted->touched = now;
  accepted->accepted = true;
  const std::vector<Entry*> claims = state_.claims.of(accepted->view.claim.uid);
  if (const Entry* shown = bound_entry(claims)) {
    // The watch was faster. The bound claim gets the cards of this attempt.
    state_.confirm(Claim(shown->view.claim));
    return;
  }
  for (Entry* entry : claims)
    if (entry != accepted) state_.release(*entry);
}

void Ledger::forget(ClaimId id) {
  const MutexLock lock(state_.mutex);
  Entry* entry = state_.claims.find(id);
  if (entry != nullptr && entry->view.phase == Phase::kAssumed) state_.release(*entry);
}

void Ledger::forget_for_now(ClaimId id, Instant now) {
  const MutexLock lock(state_.mutex);
  Entry* entry = state_.claims.find(id);
  if (entry == nullptr || entry->view.phase != Phase::kAssumed) return;
  const Claim& claim = entry->view.claim;
  const DecidedPod pod{claim.uid, claim.priority, claim.pod.name_space, claim.group};
  // The time of this bind, whose outcome may have been unknown for long, does not count.
  const Instant latest =
      entry->latest == Instant::max() ? entry->latest : entry->latest + (now - entry->touched);
  state_.nominations.keep_member(pod, {claim.node, entry->view.holds, claim.resources}, now,
                                 latest);
  state_.release(*entry);
}

void Ledger::assume_bound(Claim claim, Instant now) {
  const MutexLock lock(state_.mutex);
  bool seen = false;
  for (Entry* entry : state_.claims.of(claim.uid)) {
    if (entry->view.phase == Phase::kBound) {
      seen = true;
    } else {
      state_.release(*entry);
    }
  }
  if (!seen) state_.insert(std::move(claim), Phase::kAssumed, now);
}

std::vector<Ledger::AssumedClaim> Ledger::assumed_before(Instant before) const {
  const MutexLock lock(state_.mutex);
  std::vector<AssumedClaim> assumed;
  for (const auto& [id, entry] : state_.claims.assumed()) {
    const Claim& claim = entry->view.claim;
    if (entry->touched < before) assumed.push_back({id, claim.pod, claim.uid, claim.node});
  }
  return assumed;
}

}  // namespace mgpu::extender
