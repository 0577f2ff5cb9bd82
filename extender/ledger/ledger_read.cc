#include <algorithm>
#include <utility>

#include "extender/ledger/ledger.h"
#include "extender/ledger/limits.h"

namespace mgpu::extender {
namespace {

bool by_pod(const ClaimView& a, const ClaimView& b) {
  return a.claim.pod < b.claim.pod;
}

void count_node(const NodeRecord& record, Counts& counts) {
  counts.drifting += record.drifting;
  if (!record.present) return;
  ++counts.nodes;
  counts.cards += record.node.cards.size();
  counts.overfull += overfull_cards(record).size();
}

}  // namespace

// --- views ---------------------------------------------------------------------------------------

const Node* View::find(std::string_view node) const {
  const NodeRecord* record = ledger_.find_present(node);
  return record == nullptr ? nullptr : &record->node;
}

std::optional<Node> View::find_for(std::string_view node, const DecidedPod& pod) const {
  const Node* found = find(node);
  if (found == nullptr) return std::nullopt;
  return ledger_.with_reservations(*found, pod);
}

std::vector<const ClaimView*> View::claims_on(std::string_view node) const {
  std::vector<const ClaimView*> views;
  const NodeRecord* record = ledger_.find(node);
  if (record == nullptr) return views;
  for (const Entry* entry : record->claims) views.push_back(&entry->view);
  return views;
}

std::optional<NonGpuPod> View::non_gpu_on(std::string_view node, const PodUid& uid) const {
  const auto found = ledger_.non_gpu_.find(uid);
  if (found == ledger_.non_gpu_.end()) return std::nullopt;
  const Ledger::NonGpu& pod = found->second;
  if (pod.record->node.name.str() != node) return std::nullopt;
  return NonGpuPod{uid, pod.record->node.name, pod.resources, pod.anti_affinity};
}

bool View::elsewhere(std::string_view node, const PodUid& uid) const {
  const auto on_node = [&](const Entry* entry) { return entry->record->node.name.str() == node; };
  const auto claims = ledger_.claims_.of(uid);
  if (!claims.empty()) return std::ranges::none_of(claims, on_node);
  return ledger_.non_gpu_.contains(uid) && !non_gpu_on(node, uid);
}

void Ledger::read(Instant now, const std::function<void(const View&)>& read) {
  const MutexLock lock(mutex_);
  expected_.expire(now);
  nominations_.expire(now);
  read(View(*this));
}

void Ledger::visit_in_steps(const std::function<void(const Node&)>& visit,
                            const std::function<bool()>& go_on) const {
  MutexLock lock(mutex_);
  for (NodeSlot slot = 0; slot < index_.size(); ++slot) {
    const NodeRecord* record = index_.record(slot);
    if (record != nullptr && record->present) visit(record->node);
    if ((slot + 1) % kNodeCopiesMax != 0) continue;
    lock.unlock();
    if (!go_on()) return;
    lock.lock();
  }
}

void Ledger::each_record(MutexLock& lock, const std::function<void(NodeRecord&)>& visit) const {
  for (NodeSlot slot = 0; slot < index_.size(); ++slot) {
    if (NodeRecord* record = index_.record(slot)) visit(*record);
    // Filter and bind wait for the lock, so it is released between parts of a large cluster.
    if ((slot + 1) % kNodesHeldMax != 0) continue;
    lock.unlock();
    lock.lock();
  }
}

// --- copies --------------------------------------------------------------------------------------

std::vector<NodeName> Ledger::node_names() const {
  std::vector<NodeName> names;
  MutexLock lock(mutex_);
  names.reserve(nodes_.size());
  each_record(lock, [&](const NodeRecord& record) {
    if (record.visible()) names.push_back(record.node.name);
  });
  lock.unlock();
  std::ranges::sort(names);
  return names;
}

void Ledger::visit_versions(
    const std::function<void(const NodeName& node, const NodeVersion& version)>& visit) const {
  MutexLock lock(mutex_);
  each_record(lock, [&](const NodeRecord& record) {
    if (!record.visible()) return;
    visit(record.node.name, {record.slot, record.index->version(record.slot)});
  });
}

std::size_t Ledger::node_count() const {
  const MutexLock lock(mutex_);
  return nodes_.size();
}

std::optional<NodeView> Ledger::node(const NodeName& name) const {
  const MutexLock lock(mutex_);
  const NodeRecord* record = find(name.str());
  if (record == nullptr || !record->visible()) return std::nullopt;
  NodeView view{
      .node = record->node,
      .problem = record->problem,
      .overfull = overfull_cards(*record),
      .healths = record->healths,
      .cordoned = record->gates.cordoned,
      .taints = record->gates.taints,
      .claims = {},
  };
  if (!record->present) view.problem = "the API server has no such node, but pods are bound to it";
  for (const Entry* entry : record->claims) view.claims.push_back(entry->view);
  std::ranges::stable_sort(view.claims, by_pod);
  return view;
}

std::optional<NodeForPod> Ledger::node_for(std::string_view name, const DecidedPod& pod) const {
  const MutexLock lock(mutex_);
  const NodeRecord* record = find_present(name);
  if (record == nullptr) return std::nullopt;
  NodeForPod found{record->node, {}, record->healths};
  if (nominations_.has_reservations_on(pod, name))
    found.with_reservations = with_reservations(record->node, pod);
  return found;
}

std::optional<ClaimView> Ledger::claim(const PodRef& pod) const {
  const MutexLock lock(mutex_);
  const Entry* entry = claims_.of(pod);
  if (entry == nullptr) return std::nullopt;
  return entry->view;
}

std::vector<ClaimView> Ledger::drifting(std::size_t most) const {
  std::vector<ClaimView> drifting;
  const auto sort_and_cut = [&] {
    std::ranges::stable_sort(drifting, by_pod);
    if (drifting.size() > most) drifting.resize(most);
  };
  MutexLock lock(mutex_);
  for (NodeSlot slot = 0; slot < index_.size(); ++slot) {
    const NodeRecord* record = index_.record(slot);
    if (record == nullptr || record->drifting == 0) continue;
    for (const Entry* entry : record->claims)
      if (entry->view.claim.drift) drifting.push_back(entry->view);
    lock.unlock();
    if (drifting.size() > most) sort_and_cut();
    lock.lock();
  }
  lock.unlock();
  sort_and_cut();
  return drifting;
}

std::vector<NodeProblem> Ledger::nodes_with_problems(std::size_t most) const {
  std::vector<NodeProblem> found;
  MutexLock lock(mutex_);
  each_record(lock, [&](const NodeRecord& record) {
    if (!record.present || found.size() >= most) return;
    NodeProblem node{record.node.name, record.problem, overfull_cards(record)};
    if (!node.problem.empty() || !node.overfull.empty()) found.push_back(std::move(node));
  });
  return found;
}

std::uint64_t Ledger::releases() const {
  const MutexLock lock(mutex_);
  return releases_ + nominations_.releases();
}

std::uint64_t Ledger::releases(Instant now) {
  const MutexLock lock(mutex_);
  nominations_.expire(now);
  return releases_ + nominations_.releases();
}

std::uint64_t Ledger::card_changes() const {
  const MutexLock lock(mutex_);
  return card_changes_;
}

Counts Ledger::counts() const {
  MutexLock lock(mutex_);
  Counts counts;
  counts.assumed = claims_.assumed().size();
  counts.bound = claims_.size() - counts.assumed;
  counts.expected = expected_.size();
  counts.nominated = nominations_.size();
  counts.search_steps = allowances_.spent();
  counts.searches_limited = allowances_.limited();
  each_record(lock, [&](const NodeRecord& record) { count_node(record, counts); });
  return counts;
}

}  // namespace mgpu::extender
