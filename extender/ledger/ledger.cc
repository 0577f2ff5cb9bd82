#include "extender/ledger/ledger.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "common/base/check.h"
#include "extender/ledger/in_steps.h"
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

// The claim with the cards that the pod was bound with: the attempt that the API server accepted,
// or else the first sight of the pod on this node. Null if neither is known.
const Entry* bound_with(const std::vector<Entry*>& claims, const NodeName& node) {
  const Entry* first = nullptr;
  for (const Entry* entry : claims) {
    if (entry->view.claim.node != node) continue;
    if (entry->accepted) return entry;
    if (entry->view.phase == Phase::kBound) first = entry;
  }
  return first;
}

// Whether the binding of an attempt may be the one that bound the pod, with other cards than are
// shown now.
bool may_be_binding(const Entry& attempt, const Claim& shown) {
  return attempt.view.phase == Phase::kAssumed && attempt.view.claim.node == shown.node &&
         attempt.view.claim.placement != shown.placement;
}

Entry* bound_entry(const std::vector<Entry*>& claims) {
  const auto at = std::ranges::find(claims, Phase::kBound,
                                    [](const Entry* entry) { return entry->view.phase; });
  return at == claims.end() ? nullptr : *at;
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

NodeRecord* Ledger::find(std::string_view node) const {
  const auto slot = index_.find(node);
  return slot ? index_.record(*slot) : nullptr;
}

NodeRecord* Ledger::find_present(std::string_view node) const {
  NodeRecord* record = find(node);
  return record != nullptr && record->present ? record : nullptr;
}

NodeRecord& Ledger::record_of(const NodeName& node) {
  NodeRecord* known = find(node.str());
  if (known != nullptr) return *known;
  NodeRecord& record = nodes_[node.str()];
  record.index = &index_;
  record.slot = index_.insert(node.str(), record);
  record.node.name = node;
  return record;
}

void Ledger::erase_if_empty(NodeRecord& record) {
  if (!record.empty()) return;
  index_.erase(record.node.name.str());
  nodes_.erase(nodes_.find(record.node.name.str()));
}

void Ledger::apply(NodeFacts facts) {
  NodeRecord& record = record_of(facts.name);
  const auto gates = std::exchange(record.gates, std::move(facts.gates));
  const auto healths = std::exchange(record.healths, {});
  for (const CardFacts& card : facts.cards) {
    if (card.healthy()) continue;
    record.healths[card.index] = card.health + (card.since.empty() ? "" : " since " + card.since);
  }
  if (!changes(record, facts)) {
    // Views show this, and decisions do not look at it.
    const bool differs = gates.cordoned != record.gates.cordoned ||
                         gates.taints != record.gates.taints || healths != record.healths ||
                         record.problem != facts.problem;
    if (differs) record.changed();
    record.problem = std::move(facts.problem);
    return;
  }
  expected_.end_on(record);  // They were decided with other cards.
  ++releases_;
  ++card_changes_;
  set_facts(record, std::move(facts));
  nominations_.end_on(record.node.name, &record.node);
}

void Ledger::remove(NodeRecord& record) {
  expected_.end_on(record);
  nominations_.end_on(record.node.name, nullptr);
  set_absent(record);
  erase_if_empty(record);
}

void Ledger::replace_nodes(std::vector<NodeFacts> nodes) {
  std::unordered_set<std::string_view> names;
  for (const NodeFacts& node : nodes) names.insert(node.name.str());
  {
    MutexLock lock(mutex_);
    each_record(lock, [&](NodeRecord& record) MGPU_REQUIRES(mutex_) {
      if (record.present && !names.contains(record.node.name.str())) remove(record);
    });
  }
  in_steps(nodes, under(mutex_),
           [this](NodeFacts&& node) MGPU_REQUIRES(mutex_) { apply(std::move(node)); });
}

void Ledger::apply_node(NodeFacts node) {
  const MutexLock lock(mutex_);
  apply(std::move(node));
}

void Ledger::remove_node(const NodeName& node) {
  const MutexLock lock(mutex_);
  NodeRecord* record = find_present(node.str());
  if (record != nullptr) remove(*record);
}

// --- pods ----------------------------------------------------------------------------------------

Entry& Ledger::insert(Claim claim, Phase phase, Instant touched) {
  Entry& entry = claims_.add(std::move(claim), phase, touched);
  add(record_of(entry.view.claim.node), entry);
  return entry;
}

void Ledger::release(Entry& entry) {
  ++releases_;
  NodeRecord& record = *entry.record;
  extender::remove(entry);
  claims_.erase(entry);
  erase_if_empty(record);
}

void Ledger::release_all(const PodUid& uid) {
  for (Entry* entry : claims_.of(uid)) release(*entry);
}

Entry& Ledger::confirm(Claim claim) {
  expected_.end(claim.uid);
  nominations_.end_with_cards(claim.uid);
  nominations_.everywhere().end(claim.uid);
  remove_non_gpu(claim.uid);
  const std::vector<Entry*> known = claims_.of(claim.uid);
  const Entry* first = bound_with(known, claim.node);
  if (first != nullptr) keep_cards(first->view.claim, claim);
  const bool certain = first != nullptr && first->accepted;
  const Entry* before = bound_entry(known);
  const auto reported = before != nullptr ? before->reported : std::nullopt;
  const bool alone = known.size() == 1 && known.front()->view.claim.node == claim.node;
  std::vector<CardHold> held;
  if (alone) held = known.front()->view.holds;
  const std::uint64_t releases = releases_;
  for (Entry* entry : known)
    if (certain || !may_be_binding(*entry, claim)) release(*entry);
  Entry& now = insert(std::move(claim), Phase::kBound, Instant{});
  now.reported = reported;
  // Nothing becomes free where the same hold takes the place of another.
  if (alone && held == now.view.holds) releases_ = releases;
  return now;
}

void Ledger::set_non_gpu(NonGpuPod pod) {
  remove_non_gpu(pod.uid);
  NodeRecord& record = record_of(pod.node);
  add_non_gpu(record, pod.resources);
  non_gpu_.emplace(std::move(pod.uid), NonGpu{&record, pod.resources, pod.anti_affinity});
}

void Ledger::remove_non_gpu(const PodUid& uid) {
  const auto found = non_gpu_.find(uid);
  if (found == non_gpu_.end()) return;
  NodeRecord& record = *found->second.record;
  extender::remove_non_gpu(record, found->second.resources);
  non_gpu_.erase(found);
  erase_if_empty(record);
}

std::vector<DriftChange> Ledger::replace_pods(std::vector<Claim> claims,
                                              std::vector<NonGpuPod> non_gpu) {
  std::unordered_set<std::string_view> uids;
  for (const Claim& claim : claims) uids.insert(claim.uid.str());
  std::unordered_set<std::string_view> non_gpu_uids;
  for (const NonGpuPod& pod : non_gpu) non_gpu_uids.insert(pod.uid.str());
  each_in_steps(claims_.entries(), under(mutex_), [&](auto& claim) MGPU_REQUIRES(mutex_) {
    Entry& entry = claim.second;
    if (entry.view.phase == Phase::kBound && !uids.contains(entry.view.claim.uid.str()))
      release(entry);
  });
  each_in_steps(non_gpu_, under(mutex_), [&](const auto& pod) MGPU_REQUIRES(mutex_) {
    if (!non_gpu_uids.contains(pod.first.str())) remove_non_gpu(PodUid(pod.first));
  });
  in_steps(non_gpu, under(mutex_),
           [this](NonGpuPod&& pod) MGPU_REQUIRES(mutex_) { set_non_gpu(std::move(pod)); });
  std::vector<DriftChange> changes;
  in_steps(claims, under(mutex_), [this, &changes](Claim&& claim) MGPU_REQUIRES(mutex_) {
    Entry& entry = confirm(std::move(claim));
    nominations_.everywhere().begin(entry.view.claim.group);
    if (changes.size() >= kDriftChangesMax) return;
    if (auto change = report_drift(entry)) changes.push_back(*std::move(change));
  });
  return changes;
}

std::optional<DriftChange> Ledger::apply_pod(Claim claim) {
  const MutexLock lock(mutex_);
  return report_drift(confirm(std::move(claim)));
}

void Ledger::apply_non_gpu(NonGpuPod pod) {
  const MutexLock lock(mutex_);
  release_all(pod.uid);
  set_non_gpu(std::move(pod));
}

void Ledger::remove_pod(const PodUid& uid) {
  const MutexLock lock(mutex_);
  remove_non_gpu(uid);
  expected_.end(uid);
  nominations_.end(uid);
  nominations_.everywhere().end(uid);
  release_all(uid);
}

// --- bind ----------------------------------------------------------------------------------------

std::variant<Assumed, Reason> Ledger::assume(Claim claim, const Policy& card_policy, Instant now,
                                             const PriceSnapshot* price_snapshot) {
  const MutexLock lock(mutex_);
  expected_.expire(now);
  expected_.end(claim.uid);
  nominations_.expire(now);
  const NodeRecord* record = find_present(claim.node.str());
  if (record == nullptr) return Reason::kNodeUnknown;
  const DecidedPod pod{.uid = claim.uid,
                       .priority = claim.priority,
                       .name_space = claim.pod.name_space,
                       .group = claim.group,
                       .binds = true};
  std::optional<Node> reserved;
  if (nominations_.has_reservations_on(pod, claim.node.str())) {
    reserved = with_reservations(record->node, pod);
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
  Entry& entry = insert(std::move(claim), Phase::kAssumed, now);
  entry.latest = nominations_.latest_of(entry.view.claim.uid);
  nominations_.end_assumed(entry.view.claim.uid, entry.view.claim.node, entry.view.holds);
  // A failed bind of another member must not lose its cards.
  nominations_.keep_group(entry.view.claim.group, now);
  MGPU_DEBUG_CHECK(within_capacity(entry), "a card over its capacity by an assumed claim");
  return Assumed{entry.id, *entry.view.claim.placement};
}

void Ledger::bound(ClaimId id, Instant now) {
  const MutexLock lock(mutex_);
  Entry* accepted = claims_.find(id);
  if (accepted == nullptr || accepted->view.phase == Phase::kBound) return;
  accepted->touched = now;
  accepted->accepted = true;
  const std::vector<Entry*> claims = claims_.of(accepted->view.claim.uid);
  if (const Entry* shown = bound_entry(claims)) {
    // The watch was faster. The bound claim gets the cards of this attempt.
    confirm(Claim(shown->view.claim));
    return;
  }
  for (Entry* entry : claims)
    if (entry != accepted) release(*entry);
}

void Ledger::forget(ClaimId id) {
  const MutexLock lock(mutex_);
  Entry* entry = claims_.find(id);
  if (entry != nullptr && entry->view.phase == Phase::kAssumed) release(*entry);
}

void Ledger::forget_for_now(ClaimId id, Instant now) {
  const MutexLock lock(mutex_);
  Entry* entry = claims_.find(id);
  if (entry == nullptr || entry->view.phase != Phase::kAssumed) return;
  const Claim& claim = entry->view.claim;
  const DecidedPod pod{claim.uid, claim.priority, claim.pod.name_space, claim.group};
  // The time of this bind, whose outcome may have been unknown for long, does not count.
  const Instant latest =
      entry->latest == Instant::max() ? entry->latest : entry->latest + (now - entry->touched);
  nominations_.keep_member(pod, {claim.node, entry->view.holds, claim.resources}, now, latest);
  release(*entry);
}

void Ledger::assume_bound(Claim claim, Instant now) {
  const MutexLock lock(mutex_);
  bool seen = false;
  for (Entry* entry : claims_.of(claim.uid)) {
    if (entry->view.phase == Phase::kBound) {
      seen = true;
    } else {
      release(*entry);
    }
  }
  if (!seen) insert(std::move(claim), Phase::kAssumed, now);
}

std::vector<Ledger::AssumedClaim> Ledger::assumed_before(Instant before) const {
  const MutexLock lock(mutex_);
  std::vector<AssumedClaim> assumed;
  for (const auto& [id, entry] : claims_.assumed()) {
    const Claim& claim = entry->view.claim;
    if (entry->touched < before) assumed.push_back({id, claim.pod, claim.uid, claim.node});
  }
  return assumed;
}

// --- expected placements -------------------------------------------------------------------------

void Ledger::expect(const PodUid& uid, const NodeName& node, const GpuRequest& request,
                    const Placement& placement, Instant now, Instant until) {
  const MutexLock lock(mutex_);
  expected_.expire(now);
  expected_.end(uid);
  NodeRecord* record = find_present(node.str());
  if (record == nullptr || until <= now) return;
  expected_.add(uid, *record, holds(record->node, request, placement), until);
}

void Ledger::end_expectation(const PodUid& uid) {
  const MutexLock lock(mutex_);
  expected_.end(uid);
}

// --- nominated pods ------------------------------------------------------------------------------

void Ledger::offer_nomination(const DecidedPod& pod, std::vector<NominatedPlacement> placements,
                              const NodeName& nominated, Instant until) {
  const MutexLock lock(mutex_);
  nominations_.offer(pod, std::move(placements), nominated, until);
}

void Ledger::reserve(const DecidedPod& pod, NominatedPlacement placement, const NodeName& nominated,
                     Instant until, std::optional<Instant> counted_until) {
  const MutexLock lock(mutex_);
  nominations_.offer(pod, {std::move(placement)}, nominated, until, counted_until);
}

std::optional<std::uint64_t> Ledger::reserve_all(std::vector<Reservation> pods,
                                                 std::uint64_t answers, Instant until,
                                                 Instant counted_until) {
  const MutexLock lock(mutex_);
  for (const Reservation& one : pods)
    if (nominations_.answered_since(one.pod.uid, answers)) return std::nullopt;
  for (Reservation& one : pods)
    nominations_.offer(one.pod, {std::move(one.placement)}, {}, until, counted_until);
  return nominations_.answers();
}

std::uint64_t Ledger::answers() const {
  const MutexLock lock(mutex_);
  return nominations_.answers();
}

void Ledger::keep_group(const std::string& group, Instant now) {
  const MutexLock lock(mutex_);
  nominations_.expire(now);
  nominations_.keep_group(group, now);
}

void Ledger::end_nomination(const PodUid& uid) {
  const MutexLock lock(mutex_);
  nominations_.end(uid);
}

void Ledger::nominate(const PodUid& uid, const NodeName& node) {
  const MutexLock lock(mutex_);
  nominations_.nominate(uid, node);
}

void Ledger::replace_nominated(const std::vector<Nominated>& nominated) {
  const MutexLock lock(mutex_);
  nominations_.replace(nominated);
}

std::vector<NodeName> Ledger::nodes_of_group(const std::string& group) const {
  const MutexLock lock(mutex_);
  return nominations_.nodes_of(group);
}

void Ledger::keep_everywhere(const PodUid& uid, const Share& most, Instant until,
                             const std::string& group) {
  const MutexLock lock(mutex_);
  nominations_.everywhere().keep(uid, most, until, group);
}

void Ledger::end_everywhere(const PodUid& uid) {
  const MutexLock lock(mutex_);
  nominations_.everywhere().end(uid);
}

void Ledger::end_kept_for_group(const PodUid& uid) {
  const MutexLock lock(mutex_);
  nominations_.everywhere().end_for_group(uid);
}

Node Ledger::with_reservations(const Node& node, const DecidedPod& pod) const {
  Node copy = node;
  nominations_.count(pod, copy);
  return copy;
}

}  // namespace mgpu::extender
