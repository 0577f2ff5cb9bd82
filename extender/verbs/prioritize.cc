#include <algorithm>
#include <optional>
#include <utility>

#include "extender/placement/holds.h"
#include "extender/placement/place.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/verbs.h"

namespace mgpu::verbs {
namespace {

using placement::Score;

// MaxExtenderPriority of kube-scheduler extender/v1, kept for the one best node.
constexpr std::int64_t kBest = 10;
constexpr std::int64_t kOthersLeast = 1;
constexpr std::int64_t kOthersMost = 9;

// A node that fits.
struct Option {
  std::size_t index = 0;  // into the request's names
  Score score = 0;
  bool beside_expected = true;
};

struct Ranking {
  std::vector<Option> options;
  std::size_t best = 0;  // into options, where there are any
  Placement placement;   // on the best
};

// By room beside the pods on their way, then by score, then by name.
bool better(const Option& a, const Option& b, std::span<const std::string_view> names) {
  if (a.beside_expected != b.beside_expected) return a.beside_expected;
  if (a.score != b.score) return a.score > b.score;
  return names[a.index] < names[b.index];
}

void add(Ranking& ranking, Option option, Placement placement,
         std::span<const std::string_view> names) {
  ranking.options.push_back(option);
  const std::size_t last = ranking.options.size() - 1;
  if (last > 0 && !better(option, ranking.options[ranking.best], names)) return;
  ranking.best = last;
  ranking.placement = std::move(placement);
}

Ranking rank(const ledger::View& view, std::span<const std::string_view> names,
             const PodRequest& pod, const placement::Market* market) {
  Ranking ranking;
  const placement::Ask ask = pod.ask(market);
  placement::SearchBudget budget{limits::kFilterStepsMax};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const placement::Node* node = view.find(names[i]);
    if (node == nullptr) continue;
    auto answer = placement::place(*node, ask, *pod.policy.card, budget);
    auto* placed = std::get_if<placement::Placed>(&answer);
    if (placed == nullptr) continue;
    const auto holds = placement::holds(*node, pod.request, placed->placement);
    const Option option{i, pod.policy.node->score_node(ask, *node, holds), placed->beside_expected};
    add(ranking, option, std::move(placed->placement), names);
  }
  return ranking;
}

bool has_opinion(const PodRequest& pod) {
  return !pod.request.empty() || pod.policy.node->ranks_pods_without_cards;
}

// The scores of nodes that fit beside the pods on their way, spread over 1 .. 9. Equal scores stay
// equal, and so do scores closer than a ninth of the range.
class Scale {
 public:
  explicit Scale(const std::vector<Option>& options) {
    for (const Option& option : options) {
      if (!option.beside_expected) continue;
      least_ = std::min(least_.value_or(option.score), option.score);
      most_ = std::max(most_.value_or(option.score), option.score);
    }
  }

  std::int64_t of(const Option& option) const {
    if (!option.beside_expected) return 0;
    if (*least_ == *most_) return kOthersMost;
    return kOthersLeast +
           (option.score - *least_) * (kOthersMost - kOthersLeast) / (*most_ - *least_);
  }

 private:
  std::optional<Score> least_;
  std::optional<Score> most_;
};

std::vector<HostScore> zeros(std::span<const std::string_view> names) {
  std::vector<HostScore> scores;
  scores.reserve(names.size());
  for (const auto name : names) scores.push_back({name, 0});
  return scores;
}

}  // namespace

std::vector<HostScore> prioritize(const ExtenderArgs& args, ledger::Ledger& ledger,
                                  const Settings& settings, Instant now) {
  const PodUid uid = args.pod().uid();
  // What this pod was expected to take must not speak against its own nodes.
  ledger.end_expectation(uid);
  std::vector<HostScore> scores = zeros(args.node_names());
  const auto pod = read_pod_request(args.pod(), settings);
  if (!pod || !has_opinion(*pod)) return scores;
  Ranking ranking;
  const auto market = settings.market();
  ledger.read(now, [&](const ledger::View& view) {
    ranking = rank(view, args.node_names(), *pod, market.get());
  });
  if (ranking.options.empty()) return scores;
  const Scale scale(ranking.options);
  for (const Option& option : ranking.options) scores[option.index].score = scale.of(option);
  const std::size_t best = ranking.options[ranking.best].index;
  scores[best].score = kBest;
  if (settings.expected_placements && !pod->request.empty()) {
    ledger.expect(uid, NodeName(args.node_names()[best]), pod->request, ranking.placement, now,
                  now + settings.expectation_life);
  }
  return scores;
}

}  // namespace mgpu::verbs
