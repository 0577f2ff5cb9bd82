#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "extender/placement/reason.h"
#include "extender/verbs/named_cards.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/ranking.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {
namespace {

FilterReply pass_everywhere(const ExtenderArgs& args) {
  const auto names = args.node_names();
  FilterReply reply;
  reply.fitting.assign(names.begin(), names.end());
  reply.nodes_fitting = names.size();
  return reply;
}

FilterReply refuse_everywhere(const ExtenderArgs& args, const std::string& problem) {
  FilterReply reply;
  reply.own_sentence = std::make_shared<const std::string>("invalid request: " + problem);
  reply.outcome = FilterOutcome::kRejected;
  reply.rejection = Rejection::kInvalid;
  for (const auto node : args.node_names()) {
    reply.failed_and_unresolvable.push_back({node, *reply.own_sentence});
  }
  return reply;
}

// kube-scheduler asks about a bound pod whose resize waits for resources. It has its cards.
FilterReply stay(const ExtenderArgs& args) {
  const std::string& node = args.pod().node_name;
  FilterReply reply;
  reply.own_sentence = std::make_shared<const std::string>("the pod is bound to node " + node);
  const auto names = args.node_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == node) {
      reply.fitting.push_back(names[i]);
    } else {
      reply.failed_and_unresolvable.push_back({names[i], *reply.own_sentence});
    }
  }
  reply.nodes_fitting = reply.fitting.size();
  if (reply.fitting.empty()) {
    reply.outcome = FilterOutcome::kRejected;
    reply.rejection = Rejection::kInvalid;
  }
  return reply;
}

// minFeasibleNodesToFind of kube-scheduler: if it sends fewer nodes, it has examined all.
constexpr std::size_t kLeastExaminedNodes = 100;
constexpr std::size_t kNodesElsewhereMax = 256;

// The best nodes. kube-scheduler reads reasons only where no node fits, so there are none.
FilterReply best_nodes(const VerbContext& context, const ExtenderArgs& args, const PodRequest& pod,
                       Instant now) {
  const auto price_snapshot = context.prices.current();
  const Ranking ranking(context, args.node_names(), pod, price_snapshot.get(), now);
  FilterReply reply;
  for (const std::size_t node : ranking.best(context.options.candidate_nodes))
    reply.fitting.push_back(args.node_names()[node]);
  reply.nodes_fitting = ranking.fitting();
  return reply;
}

// Where no node fits, and the model of the cards is a reason, the reason says which models there
// are.
void name_models(FilterReply& reply, const LedgerReader& ledger, const GpuRequest& request) {
  const CardSelector& selector = request.selector;
  if (selector.models.empty() && selector.models_excluded.empty()) return;
  const std::string_view no_match = sentence(Reason::kNoCardMatches, request);
  for (RefusedNode& refusal : reply.failed_and_unresolvable) {
    if (refusal.sentence.data() != no_match.data()) continue;
    if (!reply.own_sentence) {
      reply.own_sentence = std::make_shared<const std::string>(
          fmt::format("{}; the cards are {}", no_match, models_of(ledger)));
    }
    refusal.sentence = *reply.own_sentence;
  }
}

FilterReply every_node(Ledger& ledger, const ExtenderArgs& args, const PodRequest& pod,
                       Instant now) {
  const auto names = args.node_names();
  const auto reasons = ledger.decisions().why_not(names, pod.request, now, pod.pod);
  FilterReply reply;
  reply.fitting.reserve(names.size());
  reply.failed.reserve(names.size());
  bool change_can_help = false;
  bool search_ended = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!reasons[i]) {
      reply.fitting.push_back(names[i]);
      continue;
    }
    const bool eviction_helps = eviction_can_help(*reasons[i]);
    auto& refusals = eviction_helps ? reply.failed : reply.failed_and_unresolvable;
    refusals.push_back({names[i], sentence(*reasons[i], pod.request)});
    // A pod may end, a node may appear, a card may recover.
    change_can_help |= eviction_helps || *reasons[i] == Reason::kNodeUnknown ||
                       *reasons[i] == Reason::kCardsUnhealthy ||
                       *reasons[i] == Reason::kCardsCordoned;
    search_ended |= *reasons[i] == Reason::kSearchBound;
    const Rejection here = rejection(*reasons[i]);
    reply.rejection = std::min(reply.rejection.value_or(here), here);
  }
  reply.nodes_fitting = reply.fitting.size();
  if (!reply.fitting.empty()) {
    reply.rejection.reset();
    return reply;
  }
  reply.outcome = !change_can_help ? FilterOutcome::kNeedsOtherCards
                  : search_ended   ? FilterOutcome::kMayChangeLater
                                   : FilterOutcome::kMayChange;
  name_models(reply, ledger.reader(), pod.request);
  return reply;
}

FilterReply answered_nodes(const VerbContext& context, const ExtenderArgs& args,
                           const PodRequest& pod, Instant now) {
  if (context.options.candidate_nodes > 0 && !leaves_choice(pod, args.pod())) {
    FilterReply best = best_nodes(context, args, pod, now);
    if (!best.fitting.empty()) return best;
  }
  return every_node(context.ledger, args, pod, now);
}

FilterReply filter_nodes(const VerbContext& context, const ExtenderArgs& args,
                         const PodRequest& pod, Instant now) {
  FilterReply reply = answered_nodes(context, args, pod, now);
  const std::size_t asked = args.node_names().size();
  if (asked < kLeastExaminedNodes || asked >= context.ledger.reader().node_count()) return reply;
  reply.replica_group = replica_group_of(args.pod(), pod);
  if (reply.fitting.empty()) {
    // Pods may end on nodes that were not asked about.
    if (reply.outcome == FilterOutcome::kNeedsOtherCards)
      reply.outcome = FilterOutcome::kMayChangeLater;
    reply.fitting_elsewhere = context.ledger.decisions().fitting_nodes(
        pod.request, pod.resources, args.pod().node_rules, kNodesElsewhereMax, now, pod.pod);
  }
  return reply;
}

}  // namespace

FilterReply filter(const ExtenderArgs& args, const VerbContext& context, Instant now) {
  context.ledger.reservations().end_expectation(args.pod().uid());
  const auto pod = read_pod_request(args.pod(), context.options);
  if (!pod) return refuse_everywhere(args, pod.error().message);
  if (!args.pod().node_name.empty() && !pod->request.empty()) return stay(args);
  if (context.window != nullptr) {
    context.window->seen(pod->tie_break_seed, args.pod().metadata.name_space, pod->request,
                         pod->resources);
  }
  if (pod->request.empty()) return pass_everywhere(args);
  if (context.answered != nullptr) context.answered->asked(pod->pod.uid, now);
  FilterReply reply = filter_nodes(context, args, *pod, now);
  if (reply.fitting.empty()) context.ledger.reservations().end_kept_for_group(pod->pod.uid);
  // With one node left kube-scheduler calls bind next, without prioritize.
  if (reply.fitting.size() == 1) expect_on(reply.fitting.front(), *pod, args.pod(), context, now);
  return reply;
}

}  // namespace mgpu::extender
