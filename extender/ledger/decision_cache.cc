// kube-scheduler sends thousands of nodes for every pod. Deciding on a node is a search over its
// cards, and for a score the computation of a policy after it; reading a cached decision is one
// comparison. Between two pods of one template only the node of the first one changes.
//
// Every change of a node record that may affect a decision increases the version of its slot
// (NodeIndex::changed), and a cell is only valid for the version that it was decided at. No list of
// dependencies is kept, and a change costs one addition. Scores also depend on prices: a ScoreCache
// has those of one price snapshot, and is cleared with the next.
//
// A lookup compares at most kRequestKeysMax requests, the one used last first, then one version for
// each node. Memory is requests times slots.
#include "extender/ledger/decision_cache.h"

#include "extender/pricing/price_snapshot.h"

namespace mgpu::extender {

RequestKey RequestKey::of(const GpuRequest& request) {
  RequestKey key{
      .containers = request.containers, .selector = request.selector, .links = request.links};
  for (ContainerRequest& container : key.containers) container.name.clear();
  return key;
}

RequestKey RequestKey::of(const PlacementContext& context, const PolicyChoice& policy) {
  RequestKey key = of(context.request);
  key.resources = context.resources;
  key.policy = policy;
  key.chosen_by_pod = !context.request.policy.empty();
  return key;
}

Cells<Scored>* ScoreCache::by(const PriceSnapshot* price_snapshot) {
  const std::uint64_t version = price_snapshot != nullptr ? price_snapshot->version : 0;
  if (version < current_.version) return nullptr;
  const auto is_by = [&](const Scores& scores) {
    return scores.price_snapshot == price_snapshot && scores.version == version;
  };
  if (!is_by(current_)) {
    current_ = is_by(prewarmed_) ? std::move(prewarmed_) : Scores{price_snapshot, version, {}};
    prewarmed_ = {};
  }
  idle_refreshes_ = 0;
  return &current_.cells;
}

void ScoreCache::prewarm(const PriceSnapshot& price_snapshot, Cells<Scored> cells) {
  prewarmed_ = {&price_snapshot, price_snapshot.version, std::move(cells)};
}

}  // namespace mgpu::extender
