#include <algorithm>
#include <utility>

#include "extender/ledger/ledger.h"
#include "extender/placement/limits.h"

namespace mgpu::extender {
namespace {

bool by_pod(const ClaimView& a, const ClaimView& b) {
  return a.claim.pod < b.claim.pod;
}

}  // namespace

// --- views ---------------------------------------------------------------------------------------

std::vector<std::optional<Reason>> View::why_not(std::span<const std::string_view> nodes,
                                                 const GpuRequest& request) const {
  const NodeIndex& index = ledger_.index_;
  auto& cells = ledger_.fits_.of(RequestKey::of(request));
  cells.resize(std::max(cells.size(), index.size()));
  const std::optional<Reason> absent = Reason::kNodeUnknown;
  std::vector<std::optional<Reason>> reasons(nodes.size(), absent);
  SearchBudget budget{kFilterStepsMax};
  const auto decide = [&](const Node& node) { return extender::why_not(node, request, budget); };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (const auto slot = index.find(nodes[i]))
      reasons[i] = cached(cells[*slot], index, *slot, budget, absent, decide);
  }
  return reasons;
}

std::vector<Scored> View::score(std::span<const std::string_view> nodes,
                                const PlacementContext& context, const PolicyChoice& policy) const {
  const NodeIndex& index = ledger_.index_;
  Cells<Scored> own;
  Cells<Scored>* cells = nullptr;
  if (!policy.node->per_pod && !policy.card->per_pod)
    cells = ledger_.scores_.of(RequestKey::of(context, policy)).by(context.price_snapshot);
  if (cells == nullptr) cells = &own;
  cells->resize(std::max(cells->size(), index.size()));
  std::vector<Scored> scores(nodes.size());
  SearchBudget budget{kScoreStepsMax};
  const auto decide = [&](const Node& node) { return score_of(node, context, policy, budget); };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (const auto slot = index.find(nodes[i]))
      scores[i] = cached((*cells)[*slot], index, *slot, budget, Scored{}, decide);
  }
  return scores;
}

const Node* View::find(std::string_view node) const {
  const NodeRecord* record = ledger_.find_present(node);
  return record == nullptr ? nullptr : &record->node;
}

void View::each(const std::function<void(const Node&)>& visit) const {
  for (const auto& [name, record] : ledger_.nodes_)
    if (record.present) visit(record.node);
}

std::vector<const ClaimView*> View::claims_on(std::string_view node) const {
  std::vector<const ClaimView*> views;
  const NodeRecord* record = ledger_.find(node);
  if (record == nullptr) return views;
  for (const Entry* entry : record->claims) views.push_back(&entry->view);
  return views;
}

void Ledger::read(Instant now, const std::function<void(const View&)>& read) {
  const MutexLock lock(mutex_);
  expected_.expire(now);
  read(View(*this));
}

// --- prewarming ----------------------------------------------------------------------------------

// A new price snapshot makes every cached score invalid, and the first pod after it would wait
// until all nodes are scored again, under the lock. Here the thread that built the price snapshot
// does this first. It copies a few nodes under the lock and scores the copies without it, so that
// verbs wait for one such copy at most.
//
// Nodes may change meanwhile: a score is stored with the version of the node that was copied, and
// is not used where the node has another version by then. O(requests in use * nodes), and as many
// cells of memory.
void Ledger::prewarm_scores(const PriceSnapshot& price_snapshot,
                            const std::function<bool()>& go_on) {
  constexpr std::size_t kCopyStep = 32;  // nodes, which take some 20 microseconds
  struct NodeCopy {
    NodeSlot slot = 0;
    std::uint64_t version = 0;
    Node node;
  };
  struct RequestScores {
    RequestKey key;
    GpuRequest request;
    Cells<Scored> cells;
  };
  MutexLock lock(mutex_);
  std::vector<RequestScores> requests;
  for (const auto& entry : scores_.entries()) {
    if (entry->cache.in_use())
      requests.push_back({entry->key, {entry->key.containers, entry->key.selector, {}}, {}});
  }
  std::vector<NodeCopy> copies(kCopyStep);
  for (NodeSlot begin = 0; !requests.empty() && begin < index_.size(); begin += kCopyStep) {
    std::size_t count = 0;
    for (NodeSlot slot = begin; slot < index_.size() && slot < begin + kCopyStep; ++slot) {
      const NodeRecord* record = index_.record(slot);
      if (record == nullptr || !record->present) continue;
      NodeCopy& copy = copies[count++];  // Its memory is used again.
      copy.slot = slot;
      copy.version = index_.version(slot);
      copy.node = record->node;
    }
    lock.unlock();
    for (RequestScores& scores : requests) {
      // Policies that use the seed have no cached scores.
      const PlacementContext context(scores.request, scores.key.host, 0, &price_snapshot);
      scores.cells.resize(begin + kCopyStep);
      for (const NodeCopy& copy : std::span(copies).first(count)) {
        SearchBudget budget{kPlacementStepsMax};
        scores.cells[copy.slot] = {copy.version,
                                   score_of(copy.node, context, scores.key.policy, budget)};
      }
    }
    if (!go_on()) return;
    lock.lock();
  }
  for (RequestScores& scores : requests) {
    if (ScoreCache* cache = scores_.find(scores.key))
      cache->prewarm(price_snapshot, std::move(scores.cells));
  }
}

// --- copies --------------------------------------------------------------------------------------

std::vector<NodeName> Ledger::node_names() const {
  const MutexLock lock(mutex_);
  std::vector<NodeName> names;
  names.reserve(nodes_.size());
  for (const auto& [name, record] : nodes_)
    if (record.visible()) names.emplace_back(name);
  std::ranges::sort(names);
  return names;
}

std::optional<NodeView> Ledger::node(const NodeName& name) const {
  const MutexLock lock(mutex_);
  const NodeRecord* record = find(name.str());
  if (record == nullptr || !record->visible()) return std::nullopt;
  NodeView view{record->node, record->problem, {}};
  if (!record->present) view.problem = "the API server has no such node, but pods are bound to it";
  for (const Entry* entry : record->claims) view.claims.push_back(entry->view);
  std::ranges::stable_sort(view.claims, by_pod);
  return view;
}

std::optional<ClaimView> Ledger::claim(const PodRef& pod) const {
  const MutexLock lock(mutex_);
  const Entry* entry = claims_.of(pod);
  if (entry == nullptr) return std::nullopt;
  return entry->view;
}

std::vector<ClaimView> Ledger::drifting() const {
  const MutexLock lock(mutex_);
  std::vector<ClaimView> drifting;
  for (const auto& [name, record] : nodes_) {
    if (record.drifting == 0) continue;
    for (const Entry* entry : record.claims)
      if (entry->view.claim.drift != Drift::kNone) drifting.push_back(entry->view);
  }
  std::ranges::stable_sort(drifting, by_pod);
  return drifting;
}

std::uint64_t Ledger::releases() const {
  const MutexLock lock(mutex_);
  return releases_;
}

Counts Ledger::counts() const {
  const MutexLock lock(mutex_);
  Counts counts;
  counts.assumed = claims_.assumed().size();
  counts.bound = claims_.size() - counts.assumed;
  counts.expected = expected_.size();
  for (const auto& [name, record] : nodes_) {
    counts.drifting += record.drifting;
    if (!record.present) continue;
    ++counts.nodes;
    counts.cards += record.node.cards.size();
    counts.overfull += overfull_cards(record);
  }
  return counts;
}

}  // namespace mgpu::extender
