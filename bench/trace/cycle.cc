#include "bench/trace/cycle.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "bench/trace/policies/policies.h"
#include "common/base/check.h"

namespace mgpu::trace {
namespace {

constexpr std::uint64_t kTieDraws = 3;

class Stopwatch {
 public:
  std::chrono::nanoseconds read() const { return Clock::now() - start_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// The published simulator renames nodes in the same way.
std::string renamed(const std::string& name, std::size_t number) {
  constexpr std::size_t kDigits = 4;
  const std::string digits = std::to_string(number);
  return std::string(kDigits - std::min(digits.size(), kDigits), '0') + digits + "-" + name;
}

extender::VerbOptions cycle_options(const Objects& objects, const extender::PolicyChoice& policy,
                                    Ties ties) {
  extender::VerbOptions options;
  options.contract = objects.contract();
  options.min_memory = MiB(1);
  options.policy = policy;
  options.ties_by_name = ties != Ties::kPod;
  // Filter answers with all nodes that fit.
  if (policy.node == &kClustering) options.candidate_nodes = 0;
  return options;
}

}  // namespace

Cycle::Cycle(const Objects& objects, extender::PolicyChoice policy,
             std::shared_ptr<const extender::CurrentPrices> prices, SchedulerRules rules,
             std::uint64_t seed)
    : objects_(objects),
      options_(cycle_options(objects, policy, rules.ties)),
      rules_(rules),
      tie_draws_(seed, kTieDraws),
      bookkeeping_(objects),
      prices_(std::move(prices)),
      sampler_(rules.sampling, objects.trace().nodes.size()) {
  const auto& nodes = objects.trace().nodes;
  const std::vector<std::size_t> numbers = node_numbers(objects.trace(), seed);
  for (std::size_t node = 0; node < nodes.size(); ++node)
    names_.emplace_back(renamed(nodes[node].name, numbers[node]));
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    ledger_.apply_node(objects.node_facts(node, names_[node]));
    index_of_.emplace(names_[node].str(), node);
  }
  by_name_.resize(nodes.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [this](std::size_t a, std::size_t b) { return names_[a] < names_[b]; });
}

Outcome Cycle::schedule(std::size_t index, const std::string& uid, PriceSource& price_source) {
  now_ += std::chrono::milliseconds(1);
  const kube::Pod pod = objects_.pod(index, uid);
  const auto request = extender::read_pod_request(pod, options_);
  MGPU_CHECK(request.has_value(), "pods of a trace are valid requests");
  price_source.observe(*request);
  extender::Claim claim{.pod = pod.ref(),
                        .uid = pod.uid(),
                        .node = {},
                        .request = request->request,
                        .resources = request->resources,
                        .placement = {},
                        .drift_detail = {},
                        .start_time = {},
                        .labels = {}};
  const Stopwatch stopwatch;
  const std::string_view node = choose(pod, *request, index);
  if (node.empty()) return {.node = {}, .cards = {}, .took = stopwatch.read()};
  claim.node = NodeName(node);
  Placement cards = assume(*request, claim);
  const Outcome outcome{index_of_.at(node), std::move(cards), stopwatch.read()};
  confirm(std::move(claim), outcome.cards);
  bookkeeping_.place(index, *outcome.node, outcome.cards);
  return outcome;
}

void Cycle::remove(std::size_t index, const std::string& uid, std::size_t node,
                   const Placement& cards) {
  ledger_.remove_pod(PodUid(uid));
  bookkeeping_.remove(index, node, cards);
}

// Returns an empty name if no node fits.
std::string_view Cycle::choose(const kube::Pod& pod, const extender::PodRequest& request,
                               std::size_t index) {
  const auto passes = [&](std::size_t at) { return bookkeeping_.sums_fit(by_name_[at], index); };
  for (std::size_t examined = 0; examined < by_name_.size();) {
    const NodeSample sample = sampler_.next(passes);
    examined += sample.examined;
    std::vector<std::string_view> names;
    for (const std::size_t at : sample.passing) names.push_back(names_[by_name_[at]].str());
    if (names.empty()) continue;
    if (request.request.empty() && rules_.non_gpu != NonGpuRanking::kExtender)
      return choose_without_extender(request.resources, names);
    const std::string_view node = choose_among(pod, request, std::move(names));
    if (!node.empty()) return node;
  }
  return {};
}

// Returns an empty name if none of the nodes fits.
std::string_view Cycle::choose_among(const kube::Pod& pod, const extender::PodRequest& request,
                                     std::vector<std::string_view> names) {
  const auto requested = extender::ExtenderArgs::of(pod, std::move(names));
  extender::FilterReply reply = extender::filter(requested, context_, now_);
  MGPU_CHECK(reply.rejection != extender::Rejection::kInvalid,
             "pods of a trace are valid requests");
  if (reply.fitting.empty()) return {};
  if (reply.fitting.size() == 1) return reply.fitting.front();
  if (options_.policy.node == &kClustering && !request.request.empty())
    return choose_clustered(request, reply.fitting);
  const auto fitting = extender::ExtenderArgs::of(pod, std::move(reply.fitting));
  return highest(extender::prioritize(fitting, context_, now_));
}

// REQUIRES: names is not empty.
std::string_view Cycle::choose_clustered(const extender::PodRequest& request,
                                         const std::vector<std::string_view>& names) {
  std::string_view best;
  ledger_.reader().read(now_, [&](const extender::View& view) {
    best = *std::ranges::min_element(names, {}, [&](std::string_view name) {
      return std::pair(-clustering_score(view, name, request.request), request.ties.place(name));
    });
  });
  return best;
}

// REQUIRES: names is not empty.
std::string_view Cycle::choose_without_extender(const extender::NodeResources& wanted,
                                                const std::vector<std::string_view>& names) {
  std::vector<extender::HostScore> scores;
  for (const std::string_view name : names) {
    const std::size_t node = index_of_.at(name);
    scores.push_back({name, default_score(bookkeeping_.capacity(node), wanted)});
    const bool taints = rules_.non_gpu == NonGpuRanking::kTaints;
    if (taints && !bookkeeping_.tainted(node)) scores.back().score += kUntaintedScore;
  }
  return highest(scores);
}

std::string_view Cycle::highest(const std::vector<extender::HostScore>& scores) {
  std::int64_t most = scores.front().score;
  for (const extender::HostScore& score : scores) most = std::max(most, score.score);
  const auto is_highest = [most](const extender::HostScore& score) { return score.score == most; };
  auto chosen = std::find_if(scores.begin(), scores.end(), is_highest);
  if (rules_.ties != Ties::kRandom) {
    for (auto other = chosen; other != scores.end(); ++other)
      if (is_highest(*other) && other->node < chosen->node) chosen = other;
    return chosen->node;
  }
  const auto equal = std::count_if(chosen, scores.end(), is_highest);
  auto left = tie_draws_.below(static_cast<std::uint64_t>(equal));
  for (; left > 0; --left) chosen = std::find_if(chosen + 1, scores.end(), is_highest);
  return chosen->node;
}

Placement Cycle::assume(const extender::PodRequest& request, const extender::Claim& claim) {
  if (request.request.empty()) return {};
  const auto price_snapshot = prices_->current();
  auto answer = ledger_.assume(claim, *request.policy.card, now_, price_snapshot.get());
  auto* assumed = std::get_if<extender::Assumed>(&answer);
  MGPU_CHECK(assumed != nullptr, "a node that passed filter fits, because nothing else binds");
  return std::move(assumed->placement);
}

void Cycle::confirm(extender::Claim claim, const Placement& cards) {
  if (claim.request.empty())
    return ledger_.apply_non_gpu({std::move(claim.uid), std::move(claim.node), claim.resources});
  claim.placement = cards;
  ledger_.apply_pod(std::move(claim));
}

}  // namespace mgpu::trace
