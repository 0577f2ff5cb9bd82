#include "extender/ledger/ledger_reader.h"

#include <algorithm>
#include <utility>

#include "extender/ledger/ledger_state.h"
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
  const NodeRecord* record = state_.find_present(node);
  return record == nullptr ? nullptr : &record->node;
}

std::optional<Node> View::find_for(std::string_view node, const DecidedPod& pod) const {
  const Node* found = find(node);
  if (found == nullptr) return std::nullopt;
  return state_.with_reservations(*found, pod);
}

std::vector<const ClaimView*> View::claims_on(std::string_view node) const {
  std::vector<const ClaimView*> views;
  const NodeRecord* record = state_.find(node);
  if (record == nullptr) return views;
  for (const Entry* entry : record->claims) views.push_back(&entry->view);
  return views;
}

std::optional<NonGpuPod> View::non_gpu_on(std::string_view node, const PodUid& uid) const {
  const auto found = state_.non_gpu.find(uid);
  if (found == state_.non_gpu.end()) return std::nullopt;
  const LedgerState::NonGpu& pod = found->second;
  if (pod.record->node.name.str() != node) return std::nullopt;
  return NonGpuPod{uid, pod.record->node.name, pod.resources, pod.anti_affinity};
}

bool View::elsewhere(std::string_view node, const PodUid& uid) const {
  const auto on_node = [&](const Entry* entry) { return entry->record->node.name.str() == node; };
  const auto claims = state_.claims.of(uid);
  if (!claims.empty()) return std::ranges::none_of(claims, on_node);
  return state_.non_gpu.contains(uid) && !non_gpu_on(node, uid);
}

void LedgerReader::read(Instant now, const std::function<void(const View&)>& read) {
  const MutexLock lock(state_.mutex);
  state_.expected.expire(now);
  state_.nominations.expire(now);
  read(View(state_));
}

void LedgerReader::visit_in_steps(const std::function<void(const Node&)>& visit,
                                  const std::function<bool()>& go_on) const {
  MutexLock lock(state_.mutex);
  for (NodeSlot slot = 0; slot < state_.index.size(); ++slot) {
    const NodeRecord* record = state_.index.record(slot);
    if (record != nullptr && record->present) visit(record->node);
    if ((slot + 1) % kNodeCopiesMax != 0) continue;
    lock.unlock();
    if (!go_on()) return;
    lock.lock();
  }
}

// --- copies --------------------------------------------------------------------------------------

std::vector<NodeName> LedgerReader::node_names() const {
  std::vector<NodeName> names;
  MutexLock lock(state_.mutex);
  names.reserve(state_.nodes.size());
  state_.each_record(lock, [&](const NodeRecord& record) {
    if (record.visible()) names.push_back(record.node.name);
  });
  lock.unlock();
  std::ranges::sort(names);
  return names;
}

void LedgerReader::visit_versions(
    const std::function<void(const NodeName& node, const NodeVersion& version)>& visit) const {
  MutexLock lock(state_.mutex);
  state_.each_record(lock, [&](const NodeRecord& record) {
    if (!record.visible()) return;
    visit(record.node.name, {record.slot, record.index->version(record.slot)});
  });
}

std::size_t LedgerReader::node_count() const {
  const MutexLock lock(state_.mutex);
  return state_.nodes.size();
}

std::optional<NodeView> LedgerReader::node(const NodeName& name) const {
  const MutexLock lock(state_.mutex);
  const NodeRecord* record = state_.find(name.str());
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

std::optional<NodeForPod> LedgerReader::node_for(std::string_view name,
                                                 const DecidedPod& pod) const {
  const MutexLock lock(state_.mutex);
  const NodeRecord* record = state_.find_present(name);
  if (record == nullptr) return std::nullopt;
  NodeForPod found{record->node, {}, record->healths};
  if (state_.nominations.has_reservations_on(pod, name))
    found.with_reservations = state_.with_reservations(record->node, pod);
  return found;
}

std::optional<Gate> LedgerReader::gate_of(std::string_view node,
                                          const kube::NodeRules& rules) const {
  const MutexLock lock(state_.mutex);
  const NodeRecord* record = state_.find_present(node);
  return record == nullptr ? std::nullopt : gate_for(rules, node, record->gates);
}

std::optional<ClaimView> LedgerReader::claim(const PodRef& pod) const {
  const MutexLock lock(state_.mutex);
  const Entry* entry = state_.claims.of(pod);
  if (entry == nullptr) return std::nullopt;
  return entry->view;
}

std::vector<ClaimView> LedgerReader::drifting(std::size_t most) const {
  std::vector<ClaimView> drifting;
  const auto sort_and_cut = [&] {
    std::ranges::stable_sort(drifting, by_pod);
    if (drifting.size() > most) drifting.resize(most);
  };
  MutexLock lock(state_.mutex);
  for (NodeSlot slot = 0; slot < state_.index.size(); ++slot) {
    const NodeRecord* record = state_.index.record(slot);
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

std::vector<NodeProblem> LedgerReader::nodes_with_problems(std::size_t most) const {
  std::vector<NodeProblem> found;
  MutexLock lock(state_.mutex);
  state_.each_record(lock, [&](const NodeRecord& record) {
    if (!record.present || found.size() >= most) return;
    NodeProblem node{record.node.name, record.problem, overfull_cards(record)};
    if (!node.problem.empty() || !node.overfull.empty()) found.push_back(std::move(node));
  });
  return found;
}

std::uint64_t LedgerReader::releases() const {
  const MutexLock lock(state_.mutex);
  return state_.releases + state_.nominations.releases();
}

std::uint64_t LedgerReader::releases(Instant now) {
  const MutexLock lock(state_.mutex);
  state_.nominations.expire(now);
  return state_.releases + state_.nominations.releases();
}

std::uint64_t LedgerReader::card_changes() const {
  const MutexLock lock(state_.mutex);
  return state_.card_changes;
}

Counts LedgerReader::counts() const {
  MutexLock lock(state_.mutex);
  Counts counts;
  counts.assumed = state_.claims.assumed().size();
  counts.bound = state_.claims.size() - counts.assumed;
  counts.expected = state_.expected.size();
  counts.nominated = state_.nominations.size();
  counts.search_steps = state_.allowances.spent();
  counts.searches_limited = state_.allowances.limited();
  state_.each_record(lock, [&](const NodeRecord& record) { count_node(record, counts); });
  return counts;
}

}  // namespace mgpu::extender
