#include "extender/ledger/ledger_state.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "extender/ledger/limits.h"

namespace mgpu::extender {
namespace {

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

}  // namespace

Entry* bound_entry(const std::vector<Entry*>& claims) {
  const auto at = std::ranges::find(claims, Phase::kBound,
                                    [](const Entry* entry) { return entry->view.phase; });
  return at == claims.end() ? nullptr : *at;
}

NodeRecord* LedgerState::find(std::string_view node) const {
  const auto slot = index.find(node);
  return slot ? index.record(*slot) : nullptr;
}

NodeRecord* LedgerState::find_present(std::string_view node) const {
  NodeRecord* record = find(node);
  return record != nullptr && record->present ? record : nullptr;
}

NodeRecord& LedgerState::record_of(const NodeName& node) {
  NodeRecord* known = find(node.str());
  if (known != nullptr) return *known;
  NodeRecord& record = nodes[node.str()];
  record.index = &index;
  record.slot = index.insert(node.str(), record);
  record.node.name = node;
  return record;
}

void LedgerState::erase_if_empty(NodeRecord& record) {
  MGPU_DEBUG_CHECK(index.record(record.slot) == &record, "a record is found by its slot");
  if (!record.empty()) return;
  MGPU_DEBUG_CHECK(record.expectations == 0, "no expected placement outlives its record");
  index.erase(record.node.name.str());
  nodes.erase(nodes.find(record.node.name.str()));
}

void LedgerState::apply(NodeFacts facts) {
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
  expected.end_on(record);  // They were decided with other cards.
  ++releases;
  ++card_changes;
  set_facts(record, std::move(facts));
  nominations.end_on(record.node.name, &record.node);
}

void LedgerState::remove(NodeRecord& record) {
  expected.end_on(record);
  nominations.end_on(record.node.name, nullptr);
  set_absent(record);
  erase_if_empty(record);
}

Entry& LedgerState::insert(Claim claim, Phase phase, Instant touched) {
  Entry& entry = claims.add(std::move(claim), phase, touched);
  add(record_of(entry.view.claim.node), entry);
  return entry;
}

void LedgerState::release(Entry& entry) {
  ++releases;
  NodeRecord& record = *entry.record;
  extender::remove(entry);
  claims.erase(entry);
  erase_if_empty(record);
}

void LedgerState::release_all(const PodUid& uid) {
  for (Entry* entry : claims.of(uid)) release(*entry);
}

Entry& LedgerState::confirm(Claim claim) {
  expected.end(claim.uid);
  nominations.end_with_cards(claim.uid);
  nominations.everywhere().end(claim.uid);
  remove_non_gpu(claim.uid);
  const std::vector<Entry*> known = claims.of(claim.uid);
  const Entry* first = bound_with(known, claim.node);
  if (first != nullptr) keep_cards(first->view.claim, claim);
  const bool certain = first != nullptr && first->accepted;
  const Entry* before = bound_entry(known);
  const auto reported = before != nullptr ? before->reported : std::nullopt;
  const bool alone = known.size() == 1 && known.front()->view.claim.node == claim.node;
  std::vector<CardHold> held;
  if (alone) held = known.front()->view.holds;
  const std::uint64_t releases_before = releases;
  for (Entry* entry : known)
    if (certain || !may_be_binding(*entry, claim)) release(*entry);
  Entry& now = insert(std::move(claim), Phase::kBound, Instant{});
  now.reported = reported;
  MGPU_DEBUG_CHECK(bound_entry(claims.of(now.view.claim.uid)) == &now, "a pod has one bound claim");
  // Nothing becomes free where the same hold takes the place of another.
  if (alone && held == now.view.holds) releases = releases_before;
  return now;
}

void LedgerState::set_non_gpu(NonGpuPod pod) {
  remove_non_gpu(pod.uid);
  NodeRecord& record = record_of(pod.node);
  add_non_gpu(record, pod.resources);
  non_gpu.emplace(std::move(pod.uid), NonGpu{&record, pod.resources, pod.anti_affinity});
}

void LedgerState::remove_non_gpu(const PodUid& uid) {
  const auto found = non_gpu.find(uid);
  if (found == non_gpu.end()) return;
  NodeRecord& record = *found->second.record;
  extender::remove_non_gpu(record, found->second.resources);
  non_gpu.erase(found);
  erase_if_empty(record);
}

Node LedgerState::with_reservations(const Node& node, const DecidedPod& pod) const {
  Node copy = node;
  nominations.count(pod, copy);
  return copy;
}

void LedgerState::each_record(MutexLock& lock,
                              const std::function<void(NodeRecord&)>& visit) const {
  for (NodeSlot slot = 0; slot < index.size(); ++slot) {
    if (NodeRecord* record = index.record(slot)) visit(*record);
    // Filter and bind wait for the lock, so it is released between parts of a large cluster.
    if ((slot + 1) % kNodesHeldMax != 0) continue;
    lock.unlock();
    lock.lock();
  }
}

}  // namespace mgpu::extender
