#include <algorithm>
#include <utility>

#include "common/base/mutex.h"
#include "extender/ledger/ledger_state.h"
#include "extender/placement/limits.h"

namespace mgpu::extender {
namespace {

bool by_pod(const ClaimView& a, const ClaimView& b) {
  return a.claim.pod < b.claim.pod;
}

template <class State>
class LockedView final : public View {
 public:
  explicit LockedView(State& state) : state_(state) {}

  const Node* find(std::string_view node) const override {
    const NodeRecord* record = state_.find_present(node);
    return record == nullptr ? nullptr : &record->node;
  }
  void each(const std::function<void(const Node&)>& see) const override {
    for (const auto& [name, record] : state_.nodes)
      if (record.present) see(record.node);
  }
  std::vector<std::optional<Reason>> why_not(std::span<const std::string_view> nodes,
                                             const GpuRequest& request) const override {
    FitCache& table = state_.fits.of(RequestKey::of(request));
    table.cover(state_.slots);
    std::vector<std::optional<Reason>> reasons(nodes.size(), Reason::kNodeUnknown);
    SearchBudget budget{kFilterStepsMax};
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto slot = state_.by_name.find(nodes[i]);
      if (slot) reasons[i] = table.why_not(state_.slots, *slot, request, budget);
    }
    return reasons;
  }
  std::vector<Scored> score(std::span<const std::string_view> nodes,
                            const PlacementContext& context,
                            const PolicyChoice& policy) const override {
    ScoreCache own;
    const bool drawn = policy.node->per_pod || policy.card->per_pod;
    ScoreCache& kept = drawn ? own : state_.scores.of(RequestKey::of(context, policy));
    ScoreCache& table = kept.serves(context.price_snapshot) ? kept : own;
    table.use(context.price_snapshot, state_.slots);
    std::vector<Scored> scores(nodes.size());
    SearchBudget budget{kFilterStepsMax};
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto slot = state_.by_name.find(nodes[i]);
      if (slot) scores[i] = table.score(state_.slots, *slot, context, policy, budget);
    }
    return scores;
  }
  std::vector<const ClaimView*> claims_on(std::string_view node) const override {
    std::vector<const ClaimView*> views;
    const NodeRecord* record = state_.find(node);
    if (record == nullptr) return views;
    views.reserve(record->claims.size());
    for (const Entry* entry : record->claims) views.push_back(&entry->view);
    return views;
  }

 private:
  State& state_;
};

}  // namespace

void Ledger::read(Instant now, const std::function<void(const View&)>& read) {
  const MutexLock lock(mutex_);
  state_->expectations.expire(now);
  read(LockedView(*state_));
}

std::vector<NodeName> Ledger::node_names() const {
  const MutexLock lock(mutex_);
  std::vector<NodeName> names;
  names.reserve(state_->nodes.size());
  for (const auto& [name, record] : state_->nodes)
    if (record.worth_showing()) names.emplace_back(name);
  std::ranges::sort(names);
  return names;
}

std::optional<NodeView> Ledger::node(const NodeName& name) const {
  const MutexLock lock(mutex_);
  const NodeRecord* record = state_->find(name.str());
  if (record == nullptr || !record->worth_showing()) return std::nullopt;
  NodeView view{record->node, record->problem, {}};
  if (!record->present) view.problem = "the API server has no such node, but pods are bound to it";
  for (const Entry* entry : record->claims) view.claims.push_back(entry->view);
  std::ranges::stable_sort(view.claims, by_pod);
  return view;
}

std::optional<ClaimView> Ledger::claim(const PodRef& pod) const {
  const MutexLock lock(mutex_);
  const Entry* entry = state_->claims.of(pod);
  if (entry == nullptr) return std::nullopt;
  return entry->view;
}

std::vector<ClaimView> Ledger::drifting() const {
  const MutexLock lock(mutex_);
  std::vector<ClaimView> drifting;
  for (const auto& [name, record] : state_->nodes) {
    if (record.drifting == 0) continue;
    for (const Entry* entry : record.claims)
      if (entry->view.claim.drift != Drift::kNone) drifting.push_back(entry->view);
  }
  std::ranges::stable_sort(drifting, by_pod);
  return drifting;
}

std::uint64_t Ledger::releases() const {
  const MutexLock lock(mutex_);
  return state_->releases;
}

Counts Ledger::counts() const {
  const MutexLock lock(mutex_);
  Counts counts;
  counts.assumed = state_->claims.assumed().size();
  counts.bound = state_->claims.size() - counts.assumed;
  counts.expected = state_->expectations.size();
  for (const auto& [name, record] : state_->nodes) {
    counts.drifting += record.drifting;
    if (!record.present) continue;
    ++counts.nodes;
    counts.cards += record.node.cards.size();
    counts.overfull += overfull_cards(record);
  }
  return counts;
}

}  // namespace mgpu::extender
