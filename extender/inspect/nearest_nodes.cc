#include "extender/inspect/nearest_nodes.h"

#include <algorithm>
#include <optional>

#include "extender/inspect/limits.h"
#include "extender/placement/limits.h"
#include "extender/placement/preemption/preemption.h"
#include "extender/placement/simulate.h"

namespace mgpu::extender {
namespace {

// Inserts behind those that are as near, and keeps the nearest.
template <class T, class Key>
void insert_nearest(std::vector<T>& all, T one, const Key& key) {
  const auto at = std::ranges::upper_bound(all, key(one), {}, key);
  all.insert(at, std::move(one));
  if (all.size() > kNearestMax) all.pop_back();
}

Json share_json(const Share& share) {
  return {{"core", share.core.value()}, {"memoryMiB", share.memory.value()}};
}

// The CPU and main memory that are to be free on the node, too, where they are known of it.
std::optional<NodeResources> resources_on(const Node& node, const NodeResources& resources) {
  const bool known = !node.allocatable.zero() && node.pods_allowed > 0;
  return known ? std::optional(resources) : std::nullopt;
}

}  // namespace

void NearestNodes::examine(const Node& node) {
  // With less, a search might end at its bound.
  if (node.cards.empty() || budget_.steps < 2 * kPlacementStepsMax) return;
  add_room(node);
  add_shortfall(node);
  add_release(node);
  add_uncordon(node);
}

void NearestNodes::add_room(const Node& node) {
  examined_ = true;
  budget_.spend(linear_steps(node, pod_.request));
  for (std::size_t i = 0; i < rooms_.size(); ++i)
    rooms_[i].add(node, pod_.request.selector, pod_.request.containers[i]);
}

void NearestNodes::add_shortfall(const Node& node) {
  if (!may_have_resources_for(node, pod_.resources)) return;
  const auto found = shortfall_of(node, pod_.request, least_, budget_);
  if (!found) return;
  const std::int64_t size = size_of(*found, node.cards.front().capacity);
  insert_nearest(smaller_, Smaller{node.name, *found, size},
                 [](const Smaller& one) { return one.size; });
}

void NearestNodes::add_release(const Node& node) {
  const auto view = ledger_.node(node.name);
  if (!view || view->claims.empty()) return;
  std::vector<Candidate> candidates;
  std::vector<PodRef> refs;
  for (const ClaimView& one : view->claims) {
    if (one.claim.uid == pod_.pod.uid) continue;
    candidates.push_back(
        {.start_time = one.claim.start_time, .holds = one.holds, .resources = one.claim.resources});
    refs.push_back(one.claim.pod);
  }
  const auto found =
      choose_victims(node, pod_.request, candidates, resources_on(node, pod_.resources), budget_);
  if (!found || found->victims.empty()) return;
  Release release{node.name, {}};
  for (const std::size_t victim : found->victims) release.pods.push_back(refs[victim]);
  insert_nearest(releases_, std::move(release), [](const Release& one) { return one.pods.size(); });
}

// One card, if that suffices.
void NearestNodes::add_uncordon(const Node& node) {
  if (!may_have_resources_for(node, pod_.resources)) return;
  Node all = node;
  std::vector<std::size_t> cordoned;
  for (std::size_t i = 0; i < all.cards.size(); ++i) {
    if (!all.cards[i].healthy || !all.cards[i].cordoned) continue;
    all.cards[i].cordoned = false;
    cordoned.push_back(i);
  }
  if (cordoned.empty() || why_not(all, pod_.request, budget_)) return;
  Uncordon needed{node.name, {}};
  for (const std::size_t i : cordoned) {
    const std::int32_t index = node.cards[i].index.value();
    needed.cards.push_back(index);
    Node one = node;
    one.cards[i].cordoned = false;
    if (why_not(one, pod_.request, budget_)) continue;
    needed.cards = {index};
    break;
  }
  insert_nearest(uncordons_, std::move(needed),
                 [](const Uncordon& found) { return found.cards.size(); });
}

void NearestNodes::set(Json& out) const {
  out["room"] = Json::array();
  for (std::size_t i = 0; examined_ && i < rooms_.size(); ++i) {
    const MostRoom& room = rooms_[i];
    Json one = {{"container", pod_.request.containers[i].name}, {"cards", room.cards}};
    if (room.free) one["free"] = share_json(*room.free);
    if (!room.largest.memory.zero()) one["largest"] = share_json(room.largest);
    out["room"].push_back(std::move(one));
  }
  out["smallerRequests"] = Json::array();
  for (const Smaller& one : smaller_) {
    out["smallerRequests"].push_back(
        {{"node", one.node.str()},
         {"container", pod_.request.containers[one.shortfall.container].name},
         {"core", one.shortfall.share.core.value()},
         {"memoryMiB", one.shortfall.share.memory.value()}});
  }
  out["releases"] = Json::array();
  for (const Release& one : releases_) {
    Json pods = Json::array();
    for (const PodRef& pod : one.pods)
      pods.push_back({{"namespace", pod.name_space}, {"name", pod.name}});
    out["releases"].push_back({{"node", one.node.str()}, {"pods", std::move(pods)}});
  }
  out["uncordons"] = Json::array();
  for (const Uncordon& one : uncordons_)
    out["uncordons"].push_back({{"node", one.node.str()}, {"cards", one.cards}});
}

}  // namespace mgpu::extender
