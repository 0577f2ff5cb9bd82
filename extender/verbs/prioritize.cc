#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "extender/pricing/price_snapshot.h"
#include "extender/verbs/place_on.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {
namespace {

// MaxExtenderPriority of kube-scheduler extender/v1, kept for the one best node.
constexpr std::int64_t kBest = 10;
constexpr std::int64_t kOthersLeast = 1;
constexpr std::int64_t kOthersMost = 9;

struct Ranking {
  std::vector<Scored> nodes;           // as the request names them
  std::optional<std::size_t> best;     // where one fits
  std::optional<Placement> placement;  // on the best
  std::vector<std::size_t> alike;      // for a pod without cards: as good, and without cards
};

// By room beside the pods on their way, then by score, then by name.
bool better(const Scored& a, const Scored& b) {
  if (a.beside_expected != b.beside_expected) return a.beside_expected;
  return a.score > b.score;
}

std::optional<std::size_t> best_of(const std::vector<Scored>& nodes,
                                   std::span<const std::string_view> names) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].fits) continue;
    const bool first = !best || better(nodes[i], nodes[*best]);
    if (first || (!better(nodes[*best], nodes[i]) && names[i] < names[*best])) best = i;
  }
  return best;
}

// A node without cards is rather taken than one with cards that is as good.
void find_alike(const View& view, std::span<const std::string_view> names, Ranking& ranking) {
  const Scored best = ranking.nodes[*ranking.best];
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!ranking.nodes[i].fits || better(best, ranking.nodes[i])) continue;
    if (view.find(names[i])->cards.empty()) ranking.alike.push_back(i);
  }
  if (!ranking.alike.empty()) ranking.best = ranking.alike.front();
}

Ranking rank(const View& view, std::span<const std::string_view> names, const PodRequest& pod,
             const PriceSnapshot* price_snapshot) {
  const PlacementContext context = pod.context(price_snapshot);
  Ranking ranking{view.score(names, context, pod.policy), {}, {}, {}};
  ranking.best = best_of(ranking.nodes, names);
  if (!ranking.best) return ranking;
  if (pod.request.empty()) find_alike(view, names, ranking);
  ranking.placement = place_on(view, names[*ranking.best], context, *pod.policy.card);
  return ranking;
}

bool has_opinion(const PodRequest& pod, const PriceSnapshot* price_snapshot) {
  if (!pod.request.empty()) return true;
  const Policy& policy = *pod.policy.node;
  const bool priced = price_snapshot != nullptr && !price_snapshot->tables.empty();
  return policy.ranks_pods_without_cards && (priced || !policy.needs_prices);
}

// The scores of nodes that fit beside the pods on their way, spread over 1 .. 9. Equal scores stay
// equal, and so do scores closer than a ninth of the range.
class Scale {
 public:
  explicit Scale(const std::vector<Scored>& nodes) {
    for (const Scored& node : nodes) {
      if (!node.fits || !node.beside_expected) continue;
      least_ = std::min(least_, node.score);
      most_ = std::max(most_, node.score);
    }
  }

  std::int64_t of(const Scored& node) const {
    if (!node.fits || !node.beside_expected) return 0;
    if (least_ == most_) return kOthersMost;
    return kOthersLeast + (node.score - least_) * (kOthersMost - kOthersLeast) / (most_ - least_);
  }

 private:
  Score least_ = std::numeric_limits<Score>::max();
  Score most_ = std::numeric_limits<Score>::min();
};

// Exactly one node gets it. But for a pod without cards, nodes without cards are all alike: among
// them kube-scheduler's own scores decide.
void set_best(const Ranking& ranking, std::vector<HostScore>& scores) {
  scores[*ranking.best].score = kBest;
  for (const std::size_t at : ranking.alike) scores[at].score = kBest;
}

std::vector<HostScore> zeros(std::span<const std::string_view> names) {
  std::vector<HostScore> scores;
  scores.reserve(names.size());
  for (const auto name : names) scores.push_back({name, 0});
  return scores;
}

}  // namespace

std::vector<HostScore> prioritize_non_gpu(const ExtenderArgs& args, Ledger& ledger,
                                          const Settings& settings, Instant now) {
  const auto pod = read_pod_request(args.pod(), settings);
  if (!pod || !pod->request.empty() || !has_opinion(*pod, settings.price_snapshot().get()))
    return {};
  return prioritize(args, ledger, settings, now);
}

std::vector<HostScore> prioritize(const ExtenderArgs& args, Ledger& ledger,
                                  const Settings& settings, Instant now) {
  const PodUid uid = args.pod().uid();
  // What this pod was expected to take must not speak against its own nodes.
  ledger.end_expectation(uid);
  std::vector<HostScore> scores = zeros(args.node_names());
  const auto pod = read_pod_request(args.pod(), settings);
  const auto price_snapshot = settings.price_snapshot();
  if (!pod || !has_opinion(*pod, price_snapshot.get())) return scores;
  Ranking ranking;
  ledger.read(now, [&](const View& view) {
    ranking = rank(view, args.node_names(), *pod, price_snapshot.get());
  });
  if (!ranking.best) return scores;
  const Scale scale(ranking.nodes);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i].score = scale.of(ranking.nodes[i]);
  set_best(ranking, scores);
  if (settings.expected_placements && !pod->request.empty() && ranking.placement) {
    ledger.expect(uid, NodeName(args.node_names()[*ranking.best]), pod->request, *ranking.placement,
                  now, now + settings.expectation_life);
  }
  return scores;
}

}  // namespace mgpu::extender
