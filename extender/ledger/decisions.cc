#include "extender/ledger/decisions.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "extender/ledger/ledger_reader.h"
#include "extender/ledger/limits.h"
#include "extender/ledger/stepped_decisions.h"
#include "extender/placement/holds.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"
#include "extender/placement/preemption/preemption.h"

namespace mgpu::extender {
namespace {

// A search may take all steps of one node, and then all others must still have them.
bool may_keep(const GpuRequest& request, const SearchBudget& budget) {
  return request.containers.size() <= 1 || budget.steps >= kPlacementStepsMax;
}

// A request of several containers may need a search. Its cost is not known before.
std::uint64_t steps_to_find(const Node& node, const GpuRequest& request) {
  return request.containers.size() > 1 ? kPlacementStepsMax : linear_steps(node, request);
}

// What the pod would hold of the cards of the node; nothing if the budget does not suffice.
std::vector<CardHold> holds_on(const Node& node, const GpuRequest& request, SearchBudget& budget) {
  static const Policy& policy = *find_policy("binpack")->card;
  const auto placed = place(node, request, policy, budget);
  const auto* found = std::get_if<Placed>(&placed);
  return found == nullptr ? std::vector<CardHold>() : holds(node, request, found->placement);
}

bool names_cards(const GpuRequest& request) {
  return !request.selector.uuids.empty() || !request.selector.uuids_excluded.empty();
}

}  // namespace

template <class Decision>
std::vector<Decision> Decisions::decide_in_steps(SteppedDecisions<Decision> decisions, Instant now,
                                                 const std::function<Cells<Decision>*()>& cells_of,
                                                 const GpuRequest& request, const DecidedPod& pod,
                                                 SearchBudget& budget) {
  const bool counted = request.containers.size() > 1 && !pod.name_space.empty();
  const std::uint32_t most = unless_ended(budget, request).steps;
  {
    const MutexLock lock(state_.mutex);
    state_.expected.expire(now);
    state_.nominations.expire(now);
    if (counted) budget.steps = state_.allowances.of(pod.name_space, most, now);
  }
  const std::uint32_t given = budget.steps;
  while (!decisions.done()) {
    {
      const MutexLock lock(state_.mutex);
      Cells<Decision>* cells = cells_of();
      decisions.store(cells, state_.index);
      longest_hold_ =
          std::max(longest_hold_, decisions.read(cells, state_.index, state_.nominations));
    }
    decisions.search();
  }
  if (counted) {
    const MutexLock lock(state_.mutex);
    state_.allowances.charge(pod.name_space, given - budget.steps,
                             given < most && budget.steps == 0, now);
  }
  return decisions.take();
}

SearchBudget& Decisions::unless_ended(SearchBudget& budget, const GpuRequest& request) const {
  if (searches_ended_ && request.containers.size() > 1) budget.steps = 0;
  return budget;
}

SearchBudget Decisions::preemption_steps(const GpuRequest& request, const DecidedPod& pod,
                                         Instant now) {
  if (request.containers.size() <= 1) return {kPreemptionStepsMax};
  const MutexLock lock(state_.mutex);
  return {state_.allowances.of(pod.name_space, kPreemptionStepsMax, now)};
}

void Decisions::charge_steps(const GpuRequest& request, const DecidedPod& pod, std::uint32_t spent,
                             Instant now) {
  if (request.containers.size() <= 1) return;
  const MutexLock lock(state_.mutex);
  state_.allowances.charge(pod.name_space, spent, false, now);
}

std::vector<std::optional<Reason>> Decisions::why_not(std::span<const std::string_view> nodes,
                                                      const GpuRequest& request, Instant now,
                                                      const DecidedPod& pod) {
  using Decision = std::optional<Reason>;
  const RequestKey key = RequestKey::of(request);
  SearchBudget budget{kFilterStepsMax};
  const Decider<Decision> decider{
      .absent = Reason::kNodeUnknown,
      .steps = [&](const Node& node) { return steps_to_find(node, request); },
      .decide =
          [&](const Node& node) {
            return extender::why_not(node, request, unless_ended(budget, request));
          },
      .decide_with_reservations =
          [&](const Node& node, const Node& available) {
            return extender::why_not(node, available, request, unless_ended(budget, request));
          },
      .keep = [&] { return may_keep(request, budget); },
      .by_shape = !names_cards(request)};
  auto reasons = decide_in_steps<Decision>(
      {nodes, pod, decider}, now, [&]() MGPU_REQUIRES(state_.mutex) { return &fits_.of(key); },
      request, pod, budget);
  const bool fits = std::ranges::any_of(reasons, [](const auto& reason) { return !reason; });
  SearchBudget turn_budget{fits ? 0 : kPlacementStepsMax};
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (reasons[i] == Reason::kNominated) wait_for_turn(nodes[i], request, pod, turn_budget);
  return reasons;
}

void Decisions::wait_for_turn(std::string_view node, const GpuRequest& request,
                              const DecidedPod& pod, SearchBudget& budget) {
  NominatedPlacement cards{NodeName(std::string(node)), {}, {}};
  if (budget.steps > 0 && pod.group.empty()) {
    Node copy;
    {
      const MutexLock lock(state_.mutex);
      const NodeRecord* record = state_.find_present(node);
      if (record == nullptr) return;
      copy = record->node;
      state_.nominations.count_for_turn(pod, copy);
    }
    cards.holds = holds_on(copy, request, budget);
  }
  const MutexLock lock(state_.mutex);
  state_.nominations.waits_for(pod, cards);
}

std::vector<std::string> Decisions::fitting_nodes(const GpuRequest& request,
                                                  const NodeResources& resources,
                                                  const kube::NodeRules& rules, std::size_t most,
                                                  Instant now, const DecidedPod& pod) {
  std::vector<std::string> names;
  const LedgerReader reader(state_);
  reader.visit_in_steps(
      [&](const Node& node) {
        if (has_resources_for(node, resources)) names.push_back(node.name.str());
      },
      [] { return true; });
  // The pod waits for no cards of nodes that it may not use.
  std::erase_if(names,
                [&](const std::string& name) { return reader.gate_of(name, rules).has_value(); });
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto reasons = why_not(views, request, now, pod);
  std::vector<std::string> fitting;
  for (std::size_t i = 0; i < names.size() && fitting.size() < most; ++i)
    if (!reasons[i]) fitting.push_back(std::move(names[i]));
  return fitting;
}

std::vector<Scored> Decisions::score(std::span<const std::string_view> nodes,
                                     const PlacementContext& context, const PolicyChoice& policy,
                                     Instant now, const DecidedPod& pod) {
  const bool cacheable = !policy.node->per_pod && !policy.card->per_pod;
  const RequestKey key = RequestKey::of(context, policy);
  SearchBudget budget{kScoreStepsMax};
  const Decider<Scored> decider{
      .absent = {},
      .steps =
          [&](const Node& node) {
            return steps_to_find(node, context.request) + node_steps(*policy.node, context, node) +
                   node.cards.size() * card_steps(*policy.card, context, node);
          },
      .decide =
          [&](const Node& node) {
            return score_of(node, context, policy, unless_ended(budget, context.request));
          },
      .decide_with_reservations =
          [&](const Node&, const Node& available) {
            return score_of(available, context, policy, unless_ended(budget, context.request));
          },
      .keep = [&] { return may_keep(context.request, budget); },
      .by_shape = cacheable && !names_cards(context.request)};
  return decide_in_steps<Scored>(
      {nodes, pod, decider}, now,
      [&]() MGPU_REQUIRES(state_.mutex) -> Cells<Scored>* {
        return cacheable ? scores_.of(key).by(context.price_snapshot) : nullptr;
      },
      context.request, pod, budget);
}

std::uint64_t Decisions::longest_hold() const {
  const MutexLock lock(state_.mutex);
  return longest_hold_;
}

// --- prewarming ----------------------------------------------------------------------------------

namespace {

struct RequestScores {
  explicit RequestScores(std::shared_ptr<const RequestKey> of)
      : key(std::move(of)), request{key->containers, key->selector, {}, key->links} {
    if (key->chosen_by_pod) request.policy = key->policy.node->name;
  }

  std::shared_ptr<const RequestKey> key;
  GpuRequest request;
  SearchBudget budget{kScoreStepsMax};
  Cells<Scored> cells;
};

void score_copies(RequestScores& scores, std::span<const NodeCopy> copies,
                  const PriceSnapshot& price_snapshot, const std::atomic<bool>& ended) {
  // Policies that use the seed have no cached scores.
  const PlacementContext context(scores.request, scores.key->resources, 0, &price_snapshot);
  for (const NodeCopy& copy : copies) {
    if (ended || !may_keep(scores.request, scores.budget)) return;
    const std::uint32_t before = scores.budget.steps;
    if (scores.cells.size() <= copy.slot) scores.cells.resize(copy.slot + kNodeCopiesMax);
    scores.cells[copy.slot] = {copy.version,
                               score_of(copy.node, context, scores.key->policy, scores.budget)};
    // The search ended at its bound, as it would on the other nodes, which takes seconds.
    if (before - scores.budget.steps >= kPlacementStepsMax) scores.budget.steps = 0;
  }
}

}  // namespace

std::vector<std::shared_ptr<const RequestKey>> Decisions::scored_requests() {
  const MutexLock lock(state_.mutex);
  std::vector<std::shared_ptr<const RequestKey>> keys;
  for (const auto& entry : scores_.entries())
    if (entry->cache.in_use()) keys.push_back(entry->key);
  return keys;
}

std::optional<std::size_t> Decisions::copy_nodes(NodeSlot begin, std::span<NodeCopy> copies) const {
  const MutexLock lock(state_.mutex);
  if (begin >= state_.index.size()) return std::nullopt;
  const std::size_t end = std::min(state_.index.size(), begin + copies.size());
  std::size_t count = 0;
  for (NodeSlot slot = begin; slot < end; ++slot) {
    const NodeRecord* record = state_.index.record(slot);
    if (record == nullptr || !record->present) continue;
    NodeCopy& copy = copies[count++];
    copy.slot = slot;
    copy.version = state_.index.version(slot);
    copy.node = record->node;
  }
  return count;
}

// A new price snapshot makes every cached score invalid, and the first pod after it would wait
// until all nodes are scored again. Here the thread that built the price snapshot does this first.
// It copies a few nodes under the lock and scores the copies without it, so that verbs wait for one
// such copy at most.
//
// Nodes may change meanwhile: a score is stored with the version of the node that was copied, and
// is not used where the node has another version by then. O(requests in use * nodes), and as many
// cells of memory.
void Decisions::prewarm_scores(const PriceSnapshot& price_snapshot,
                               const std::function<bool()>& go_on, const Compute& compute) {
  std::vector<RequestScores> requests;
  for (auto& key : scored_requests()) requests.emplace_back(std::move(key));
  if (requests.empty()) return;
  std::vector<NodeCopy> copies(kNodeCopiesMax);  // Their memory is used again.
  NodeSlot begin = 0;
  while (const auto count = copy_nodes(begin, copies)) {
    compute([&] {
      for (RequestScores& scores : requests)
        score_copies(scores, std::span(copies).first(*count), price_snapshot, searches_ended_);
    });
    if (!go_on()) return;
    begin += kNodeCopiesMax;
  }
  const MutexLock lock(state_.mutex);
  for (RequestScores& scores : requests) {
    if (ScoreCache* cache = scores_.find(*scores.key))
      cache->prewarm(price_snapshot, std::move(scores.cells));
  }
}

}  // namespace mgpu::extender
