#include "extender/ledger/ledger.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "extender/ledger/ledger_state.h"
#include "extender/ledger/limits.h"
#include "extender/placement/limits.h"

namespace mgpu::extender {
namespace {

void check_room(const Node& node, const Claim& claim) {
  for (const CardHold& hold : holds(node, claim.request, *claim.placement)) {
    const Card* card = node.find(hold.card);
    MGPU_CHECK(card != nullptr && hold.share.fits_in(card->room()), "placed without room");
  }
}

// The other half of check_room, read from the ledger that bind writes its annotation of: no card is
// over its capacity by what this claim holds. (A card may be over-full in a dimension of which the
// claim holds nothing.)
bool within_capacity(const Entry& entry) {
  return std::ranges::all_of(entry.view.holds, [&](const CardHold& hold) {
    const Card* card = entry.home->node.find(hold.card);
    return card != nullptr && (hold.share.core.zero() || card->used.core <= card->capacity.core) &&
           (hold.share.memory.zero() || card->used.memory <= card->capacity.memory);
  });
}

// Lets reads in between: each object is right by itself, in whatever order they come. The analysis
// does not see that `mutex` is what `apply` requires.
template <class T, class Apply>
void in_steps(Mutex& mutex, std::vector<T>& all, Apply apply) MGPU_NO_THREAD_ANALYSIS {
  for (std::size_t begin = 0; begin < all.size(); begin += kRelistStep) {
    const std::size_t end = std::min(all.size(), begin + kRelistStep);
    const MutexLock lock(mutex);
    for (std::size_t i = begin; i < end; ++i) apply(std::move(all[i]));
  }
}

}  // namespace

Ledger::Ledger() : state_(std::make_unique<State>()) {}
Ledger::~Ledger() = default;

// --- fed by the node informer --------------------------------------------------------------------

void Ledger::replace_nodes(std::vector<NodeFacts> nodes) {
  std::unordered_set<std::string_view> names;
  for (const NodeFacts& node : nodes) names.insert(node.name.str());
  {
    const MutexLock lock(mutex_);
    std::vector<NodeRecord*> gone;
    for (auto& [name, record] : state_->nodes)
      if (record.present && !names.contains(name)) gone.push_back(&record);
    for (NodeRecord* record : gone) state_->remove(*record);
  }
  in_steps(mutex_, nodes,
           [this](NodeFacts&& node) MGPU_REQUIRES(mutex_) { state_->apply(std::move(node)); });
}

void Ledger::apply_node(NodeFacts node) {
  const MutexLock lock(mutex_);
  state_->apply(std::move(node));
}

void Ledger::remove_node(const NodeName& node) {
  const MutexLock lock(mutex_);
  NodeRecord* record = state_->find_present(node.str());
  if (record != nullptr) state_->remove(*record);
}

// --- fed by the pod informer ---------------------------------------------------------------------

void Ledger::replace_pods(std::vector<Claim> claims, std::vector<NonGpuPod> plain) {
  std::unordered_set<std::string_view> uids;
  for (const Claim& claim : claims) uids.insert(claim.uid.str());
  std::unordered_set<std::string_view> plain_uids;
  for (const NonGpuPod& pod : plain) plain_uids.insert(pod.uid.str());
  {
    const MutexLock lock(mutex_);
    for (Entry* entry : state_->claims.bound())
      if (!uids.contains(entry->view.claim.uid.str())) state_->release(*entry);
    std::vector<PodUid> gone;
    for (const auto& [uid, pod] : state_->plain)
      if (!plain_uids.contains(uid.str())) gone.push_back(uid);
    for (const PodUid& uid : gone) state_->drop_plain(uid);
  }
  in_steps(mutex_, plain,
           [this](NonGpuPod&& pod) MGPU_REQUIRES(mutex_) { state_->set_plain(std::move(pod)); });
  in_steps(mutex_, claims,
           [this](Claim&& claim) MGPU_REQUIRES(mutex_) { state_->confirm(std::move(claim)); });
}

void Ledger::apply_pod(Claim claim) {
  const MutexLock lock(mutex_);
  state_->confirm(std::move(claim));
}

void Ledger::apply_non_gpu(NonGpuPod pod) {
  const MutexLock lock(mutex_);
  state_->release_all(pod.uid);
  state_->set_plain(std::move(pod));
}

void Ledger::remove_pod(const PodUid& uid) {
  const MutexLock lock(mutex_);
  state_->drop_plain(uid);
  state_->expectations.end(uid);
  state_->release_all(uid);
}

// --- bind ----------------------------------------------------------------------------------------

std::variant<Assumed, Reason> Ledger::assume(Claim claim, const Policy& card_policy, Instant now,
                                             const PriceSnapshot* price_snapshot) {
  const MutexLock lock(mutex_);
  state_->expectations.expire(now);
  state_->expectations.end(claim.uid);
  const NodeRecord* record = state_->find_present(claim.node.str());
  if (record == nullptr) return Reason::kNodeUnknown;
  SearchBudget budget{kPlacementStepsMax};
  const PlacementContext context(claim.request, claim.host, draw_of(claim.uid), price_snapshot);
  auto answer = place(record->node, context, card_policy, budget);
  if (const Reason* reason = std::get_if<Reason>(&answer)) return *reason;
  claim.placement = std::move(std::get<Placed>(answer).placement);
  check_room(record->node, claim);
  const Entry& entry = state_->insert(std::move(claim), Phase::kAssumed, now);
  MGPU_DEBUG_CHECK(within_capacity(entry), "a card over its capacity by an assumed claim");
  return Assumed{entry.id, *entry.view.claim.placement};
}

void Ledger::bound(ClaimId id, Instant now) {
  const MutexLock lock(mutex_);
  Entry* taken = state_->claims.find(id);
  if (taken == nullptr || taken->view.phase == Phase::kBound) return;
  taken->touched = now;
  const std::vector<Entry*> attempts = state_->claims.of(taken->view.claim.uid);
  const bool seen = std::ranges::any_of(
      attempts, [](const Entry* entry) { return entry->view.phase == Phase::kBound; });
  // What the watch has shown is the truth already; else this attempt is.
  for (Entry* entry : attempts)
    if (entry->view.phase == Phase::kAssumed && (seen || entry != taken)) state_->release(*entry);
}

void Ledger::forget(ClaimId id) {
  const MutexLock lock(mutex_);
  Entry* entry = state_->claims.find(id);
  if (entry != nullptr && entry->view.phase == Phase::kAssumed) state_->release(*entry);
}

std::vector<Ledger::InDoubt> Ledger::assumed_before(Instant before) const {
  const MutexLock lock(mutex_);
  std::vector<InDoubt> in_doubt;
  for (const auto& [id, entry] : state_->claims.assumed()) {
    const Claim& claim = entry->view.claim;
    if (entry->touched < before) in_doubt.push_back({id, claim.pod, claim.uid, claim.node});
  }
  return in_doubt;
}

// --- expected placements -------------------------------------------------------------------------

void Ledger::expect(const PodUid& uid, const NodeName& node, const GpuRequest& request,
                    const Placement& placement, Instant now, Instant until) {
  const MutexLock lock(mutex_);
  state_->expectations.expire(now);
  state_->expectations.end(uid);
  NodeRecord* record = state_->find_present(node.str());
  if (record == nullptr || until <= now) return;
  state_->expectations.note(uid, *record, holds(record->node, request, placement), until);
}

void Ledger::end_expectation(const PodUid& uid) {
  const MutexLock lock(mutex_);
  state_->expectations.end(uid);
}

}  // namespace mgpu::extender
