#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "extender/pricing/price_snapshot.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/ranking.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {
namespace {

// MaxExtenderPriority of kube-scheduler extender/v1; only the best node gets it.
constexpr std::int64_t kBestScore = 10;
constexpr std::int64_t kOthersMin = 1;
constexpr std::int64_t kOthersMax = 9;

// The nodes without cards that are as good as the best.
std::vector<std::size_t> best_without_cards(Ledger& ledger, const std::vector<Scored>& nodes,
                                            std::size_t best,
                                            std::span<const std::string_view> names, Instant now) {
  std::vector<std::size_t> found;
  ledger.reader().read(now, [&](const View& view) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!nodes[i].fits || better(nodes[best], nodes[i])) continue;
      const Node* node = view.find(names[i]);
      if (node != nullptr && node->cards.empty()) found.push_back(i);
    }
  });
  return found;
}

// The nodes that get kBestScore; empty if none fits.
std::vector<std::size_t> choose(Ledger& ledger, const Ranking& ranking,
                                std::span<const std::string_view> names, const PodRequest& pod,
                                Instant now) {
  const auto best = ranking.best();
  if (!best) return {};
  // For a non-GPU pod all nodes without cards that are as good as the best get the same score, and
  // kube-scheduler's own plugins choose among them.
  std::vector<std::size_t> chosen;
  if (pod.request.empty()) chosen = best_without_cards(ledger, ranking.nodes(), *best, names, now);
  if (chosen.empty()) chosen.push_back(*best);
  return chosen;
}

// Whether the policy has a preference for any node.
bool is_ranked(const PodRequest& pod, const PriceSnapshot* price_snapshot) {
  if (!pod.request.empty()) return true;
  const Policy& policy = *pod.policy.node;
  const bool priced = price_snapshot != nullptr && !price_snapshot->tables.empty();
  return policy.ranks_pods_without_cards && (priced || !policy.needs_prices);
}

// Gives all nodes that fit beside the expected placements, or if there are none all that fit, the
// same score, so that kube-scheduler's own scores decide.
void set_equal_scores(const std::vector<Scored>& nodes, std::vector<HostScore>& scores) {
  const bool any_beside = std::ranges::any_of(
      nodes, [](const Scored& node) { return node.fits && node.beside_expected; });
  for (std::size_t i = 0; i < scores.size(); ++i)
    scores[i].score = nodes[i].fits && (nodes[i].beside_expected || !any_beside) ? kBestScore : 0;
}

// Spreads the scores of the nodes that fit beside the expected placements over 1 .. 9. Equal scores
// stay equal; scores that differ by less than a ninth of the range may become equal.
void set_scores(const std::vector<Scored>& nodes, const std::vector<std::size_t>& chosen,
                std::vector<HostScore>& scores) {
  const auto counts = [](const Scored& node) { return node.fits && node.beside_expected; };
  Score lowest = std::numeric_limits<Score>::max();
  Score highest = std::numeric_limits<Score>::min();
  for (const Scored& node : nodes) {
    if (!counts(node)) continue;
    lowest = std::min(lowest, node.score);
    highest = std::max(highest, node.score);
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const Scored& node = nodes[i];
    if (!counts(node)) continue;
    scores[i].score =
        lowest == highest
            ? kOthersMax
            : kOthersMin + (node.score - lowest) * (kOthersMax - kOthersMin) / (highest - lowest);
  }
  for (const std::size_t i : chosen) scores[i].score = kBestScore;
}

}  // namespace

std::vector<HostScore> prioritize(const ExtenderArgs& args, const VerbContext& context,
                                  Instant now) {
  Ledger& ledger = context.ledger;
  const PodUid uid = args.pod().uid();
  // The pod's own expected placement must not count against it.
  ledger.reservations().end_expectation(uid);
  std::vector<HostScore> scores;
  scores.reserve(args.node_names().size());
  for (const auto name : args.node_names()) scores.push_back({name, 0});
  const auto pod = read_pod_request(args.pod(), context.options);
  const auto price_snapshot = context.prices.current();
  if (!pod || !is_ranked(*pod, price_snapshot.get())) return scores;
  const auto names = args.node_names();
  const Ranking ranking(context, names, *pod, price_snapshot.get(), now);
  const std::vector<std::size_t> chosen = choose(ledger, ranking, names, *pod, now);
  if (chosen.empty()) return scores;
  if (leaves_choice(*pod, args.pod())) {
    set_equal_scores(ranking.nodes(), scores);
    std::vector<std::string_view> fitting;
    for (const HostScore& one : scores)
      if (one.score > 0) fitting.push_back(one.node);
    offer_on(fitting, *pod, args.pod(), context, now);
    return scores;
  }
  set_scores(ranking.nodes(), chosen, scores);
  if (!pod->request.empty()) expect_on(names[chosen.front()], *pod, args.pod(), context, now);
  return scores;
}

std::vector<HostScore> prioritize_non_gpu(const ExtenderArgs& args, const VerbContext& context,
                                          Instant now) {
  const auto pod = read_pod_request(args.pod(), context.options);
  if (!pod || !pod->request.empty()) return {};
  if (!is_ranked(*pod, context.prices.current().get())) return {};
  return prioritize(args, context, now);
}

}  // namespace mgpu::extender
