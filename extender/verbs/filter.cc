#include <optional>
#include <utility>

#include "extender/placement/place.h"
#include "extender/placement/reason.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/verbs.h"

namespace mgpu::verbs {
namespace {

using placement::Reason;

void pass(const ExtenderArgs& args, std::size_t index, FilterReply& reply) {
  reply.fitting.push_back(args.node_names()[index]);
  if (args.has_full_nodes()) reply.fitting_full_nodes.push_back(index);
}

// Pods that leave, a node that comes, a card that recovers.
bool news_can_help(Reason reason) {
  return placement::eviction_can_help(reason) || reason == Reason::kNodeUnknown ||
         reason == Reason::kCardsUnhealthy;
}

void refuse(std::string_view node, Reason reason, FilterReply& reply) {
  auto& refusals =
      placement::eviction_can_help(reason) ? reply.failed : reply.failed_and_unresolvable;
  refusals.push_back({node, placement::sentence(reason)});
  reply.may_change |= news_can_help(reason);
}

FilterReply pass_everywhere(const ExtenderArgs& args) {
  FilterReply reply;
  for (std::size_t i = 0; i < args.node_names().size(); ++i) pass(args, i, reply);
  return reply;
}

FilterReply refuse_everywhere(const ExtenderArgs& args, std::string sentence) {
  FilterReply reply;
  reply.pod_refusal = std::make_shared<const std::string>(std::move(sentence));
  for (const auto node : args.node_names()) {
    reply.failed_and_unresolvable.push_back({node, *reply.pod_refusal});
  }
  return reply;
}

std::optional<Reason> why_not(const ledger::View& view, std::string_view name,
                              const GpuRequest& request, placement::SearchBudget& budget) {
  const placement::Node* node = view.find(name);
  if (node == nullptr) return Reason::kNodeUnknown;
  return placement::why_not(*node, request, budget);
}

FilterReply scan(const ledger::View& view, const ExtenderArgs& args, const GpuRequest& request) {
  FilterReply reply;
  reply.fitting.reserve(args.node_names().size());
  placement::SearchBudget budget{limits::kFilterStepsMax};
  for (std::size_t i = 0; i < args.node_names().size(); ++i) {
    const std::string_view name = args.node_names()[i];
    const auto reason = why_not(view, name, request, budget);
    reason ? refuse(name, *reason, reply) : pass(args, i, reply);
  }
  reply.may_change &= reply.fitting.empty();
  return reply;
}

std::optional<Placement> place_on(const ledger::View& view, std::string_view name,
                                  const PodRequest& pod, const placement::Market* market) {
  const placement::Node* node = view.find(name);
  placement::SearchBudget budget{limits::kPlacementStepsMax};
  auto answer = placement::place(*node, pod.ask(market), *pod.policy.card, budget);
  auto* placed = std::get_if<placement::Placed>(&answer);
  if (placed == nullptr) return std::nullopt;
  return std::move(placed->placement);
}

}  // namespace

FilterReply filter(const ExtenderArgs& args, ledger::Ledger& ledger, const Settings& settings,
                   Instant now) {
  const PodUid uid = args.pod().uid();
  ledger.end_expectation(uid);
  const auto pod = read_pod_request(args.pod(), settings);
  if (!pod) return refuse_everywhere(args, pod.error().message);
  if (pod->request.empty()) return pass_everywhere(args);
  FilterReply reply;
  const auto market = settings.market();
  std::optional<Placement> expected;
  ledger.read(now, [&](const ledger::View& view) {
    reply = scan(view, args, pod->request);
    // kube-scheduler goes from one node straight to bind.
    if (reply.fitting.size() != 1 || !settings.expected_placements) return;
    expected = place_on(view, reply.fitting.front(), *pod, market.get());
  });
  if (expected) {
    ledger.expect(uid, NodeName(reply.fitting.front()), pod->request, *expected, now,
                  now + settings.expectation_life);
  }
  return reply;
}

}  // namespace mgpu::verbs
