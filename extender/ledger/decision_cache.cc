// Why answers are kept: kube-scheduler asks about thousands of nodes for every pod, and most pods
// of a cluster are replicas of a few templates. Deciding a node is a search over its cards, and for
// a score the arithmetic of a policy after it; reading a kept answer is one comparison. Between two
// pods of one template only the node changes on which the first was placed.
//
// How an answer goes stale: every change of a node record that a decision may go by raises the
// version of its slot (NodeSlots::changed), and a cell holds only for the version that it was
// decided at. No list of what depends on what is kept, and a change costs one addition. Scores also
// depend on prices: a table holds those of one price snapshot, and begins anew with the next.
//
// A lookup is a search by equality through at most kRequestKeysMax shapes, the one used last
// first, then one comparison of versions for each node. Memory is shapes times slots.
//
// An answer that was found with fewer steps than a node may have is not kept (worth_keeping): the
// next pod may have more steps, and find another.
#include "extender/ledger/decision_cache.h"

#include <utility>
#include <variant>

#include "extender/ledger/limits.h"
#include "extender/placement/holds.h"
#include "extender/placement/limits.h"
#include "extender/pricing/price_snapshot.h"

namespace mgpu::extender {
namespace {

// Where all nodes together have less left than one may spend, an answer may be for want of steps.
bool worth_keeping(const SearchBudget& before) {
  return before.steps >= kPlacementStepsMax;
}

std::uint64_t version_of(const PriceSnapshot* price_snapshot) {
  return price_snapshot != nullptr ? price_snapshot->version : 0;
}

}  // namespace

RequestKey RequestKey::of(const GpuRequest& request) {
  RequestKey shape{
      .containers = request.containers, .selector = request.selector, .host = {}, .policy = {}};
  for (ContainerRequest& container : shape.containers) container.name.clear();
  return shape;
}

RequestKey RequestKey::of(const PlacementContext& context, const PolicyChoice& policy) {
  RequestKey shape = of(context.request);
  shape.host = context.host;
  shape.policy = policy;
  return shape;
}

Scored score_of(const Node& node, const PlacementContext& context, const PolicyChoice& policy,
                SearchBudget& budget) {
  const auto answer = place(node, context, *policy.card, budget);
  const auto* placed = std::get_if<Placed>(&answer);
  if (placed == nullptr) return {};
  const auto holds = extender::holds(node, context.request, placed->placement);
  return {true, placed->beside_expected, policy.node->score_node(context, node, holds)};
}

std::optional<Reason> FitCache::decide(Cell& cell, const NodeSlots& slots, NodeSlot slot,
                                       const GpuRequest& request, SearchBudget& budget) {
  const NodeRecord& record = *slots.record(slot);
  if (!record.present) return Reason::kNodeUnknown;
  const bool keep = worth_keeping(budget);
  const auto reason = extender::why_not(record.node, request, budget);
  if (keep) cell = {slots.version(slot), reason};
  return reason;
}

Scored ScoreCache::decide(ScoreCell& cell, const NodeSlots& slots, NodeSlot slot,
                          const PlacementContext& context, const PolicyChoice& policy,
                          SearchBudget& budget) {
  const NodeRecord& record = *slots.record(slot);
  if (!record.present) return {};
  const bool keep = worth_keeping(budget);
  const Scored scored = score_of(record.node, context, policy, budget);
  if (keep) cell = {slots.version(slot), scored};
  return scored;
}

bool ScoreCache::Found::by(const PriceSnapshot* other) const {
  return price_snapshot == other && version == version_of(other);
}

bool ScoreCache::serves(const PriceSnapshot* price_snapshot) const {
  return version_of(price_snapshot) >= now_.version;
}

void ScoreCache::use(const PriceSnapshot* price_snapshot, const NodeSlots& slots) {
  idle_markets_ = 0;
  if (!now_.by(price_snapshot)) {
    now_ = ahead_.by(price_snapshot) ? std::move(ahead_)
                                     : Found{price_snapshot, version_of(price_snapshot), {}};
    ahead_ = {};
  }
  now_.cells.resize(std::max(now_.cells.size(), slots.size()));
}

void ScoreCache::prewarm(const PriceSnapshot& price_snapshot, std::vector<ScoreCell> cells) {
  ahead_ = {&price_snapshot, price_snapshot.version, std::move(cells)};
}

template <class Table>
Table* DecisionCache<Table>::find(const RequestKey& shape) {
  const auto at =
      std::ranges::find_if(entries_, [&](const auto& entry) { return entry->shape == shape; });
  return at == entries_.end() ? nullptr : &(*at)->table;
}

template <class Table>
Table& DecisionCache<Table>::of(const RequestKey& shape) {
  auto at =
      std::ranges::find_if(entries_, [&](const auto& entry) { return entry->shape == shape; });
  if (at == entries_.end()) {
    if (entries_.size() >= kRequestKeysMax) entries_.pop_back();
    at = entries_.insert(entries_.end(), std::make_unique<Entry>(Entry{shape, {}}));
  }
  std::rotate(entries_.begin(), at, at + 1);
  return entries_.front()->table;
}

template class DecisionCache<FitCache>;
template class DecisionCache<ScoreCache>;

}  // namespace mgpu::extender
