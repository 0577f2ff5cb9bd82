#include "extender/verbs/pod_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/text.h"
#include "extender/ledger/claim.h"
#include "extender/ledger/limits.h"
#include "extender/placement/holds.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"

namespace mgpu::extender {

namespace {

Result<void> check_min_core(const GpuRequest& request, Percent min_core) {
  for (const ContainerRequest& container : request.containers) {
    if (container.whole || container.per_card.core >= min_core) continue;
    return error(fmt::format(
        "container {} requests {} % of a card, and this cluster gives at least {} % (--min-core)",
        in_quotes(container.name), container.per_card.core.value(), min_core.value()));
  }
  return {};
}

}  // namespace

Result<PodRequest> read_pod_request(const kube::Pod& pod, const VerbOptions& options) {
  MGPU_CHECK(options.policy.node != nullptr && options.policy.card != nullptr, "no default policy");
  auto request = read_request(pod, options.contract, options.min_memory);
  if (!request) return request.error();
  if (auto ok = check_min_core(*request, options.min_core); !ok) return ok.error();
  PodRequest read{.request = std::move(*request),
                  .policy = options.policy,
                  .resources = resources_of(pod),
                  .tie_break_seed = tie_break_seed_of(pod.uid()),
                  .ties = {},
                  .pod = {pod.uid(), pod.priority, pod.metadata.name_space, group_name(pod)}};
  if (!options.ties_by_name) read.ties.seed = read.tie_break_seed;
  if (read.request.empty() || read.request.policy.empty()) return read;
  auto policy = find_policy(read.request.policy);
  if (!policy) {
    return error(fmt::format("annotation {}: {}", options.contract.policy, policy.error().message));
  }
  read.policy = *policy;
  return read;
}

namespace {

// The parts of a pod one after another, each with its end.
class GroupText {
 public:
  void add(std::string_view part) { text_.append(part).push_back('\0'); }
  void add(const std::string& part) { add(std::string_view(part)); }
  void add(std::int64_t number) { add(std::to_string(number)); }
  void add(const kube::StringMap::value_type& entry) {
    add(entry.first);
    add(entry.second);
  }
  void add(const kube::LabelRequirement& one) {
    add(one.key);
    add(one.op);
    add_all(one.values);
  }
  void add(const kube::NodeTerm& term) {
    add_all(term.labels);
    add_all(term.fields);
  }
  void add(const kube::Toleration& one) {
    for (const auto* part : {&one.key, &one.op, &one.value, &one.effect}) add(*part);
  }
  void add(const kube::Container& container) {
    add_all(container.limits);
    add_all(container.requests);
  }
  void add(const ContainerRequest& container) { add(std::int64_t{container.cards}); }
  void add_all(const auto& parts) {
    add(static_cast<std::int64_t>(parts.size()));
    for (const auto& part : parts) add(part);
  }
  std::uint64_t hash() const { return std::max<std::uint64_t>(1, std::hash<std::string>()(text_)); }

 private:
  std::string text_;
};

bool is_alone(const kube::Pod& pod) {
  const auto& host_port = &kube::Container::host_port;
  return pod.constrained || std::ranges::any_of(pod.containers, host_port) ||
         std::ranges::any_of(pod.init_containers, host_port);
}

// Whether kube-scheduler may not call bind directly after the pod's own turn. It asks about all
// members of a PodGroup before it binds one, and the plugin Coscheduling holds back the pods with
// its label until there are enough: a card that is promised to one is not free to the next.
bool binds_later(const PodRequest& pod, const kube::Pod& sent) {
  return sent.constrained || !pod.pod.group.empty();
}

}  // namespace

bool leaves_choice(const PodRequest& pod, const kube::Pod& sent) {
  return sent.has_preferences && !pod.request.empty() && pod.pod.group.empty();
}

std::uint64_t replica_group_of(const kube::Pod& pod, const PodRequest& read) {
  GroupText text;
  if (is_alone(pod)) text.add(pod.metadata.uid);
  text.add(std::int64_t{pod.priority});
  text.add_all(pod.containers);
  text.add_all(pod.init_containers);
  text.add_all(pod.overhead);
  text.add_all(read.request.containers);
  const CardSelector& cards = read.request.selector;
  for (const auto* names :
       {&cards.models, &cards.models_excluded, &cards.uuids, &cards.uuids_excluded})
    text.add_all(*names);
  text.add_all(pod.node_rules.selector);
  if (pod.node_rules.required) text.add_all(*pod.node_rules.required);
  text.add_all(pod.node_rules.tolerations);
  return text.hash();
}

bool names_cards(const kube::Pod& pod, const Contract& contract) {
  const auto in = [&](const kube::StringMap& amounts) {
    return amounts.contains(contract.core_resource) || amounts.contains(contract.memory_resource);
  };
  const auto names = [&](const kube::Container& container) {
    return in(container.limits) || in(container.requests);
  };
  return std::ranges::any_of(pod.containers, names) ||
         std::ranges::any_of(pod.init_containers, names);
}

void expect_on(std::string_view node, const PodRequest& pod, const kube::Pod& sent,
               const VerbContext& context, Instant now) {
  if (context.answered != nullptr) context.answered->answered(pod.pod.uid, node);
  const auto found = context.ledger.reader().node_for(node, pod.pod);
  if (!found) return;
  const auto price_snapshot = context.prices.current();
  const auto placement = place_on(found->available(), pod, price_snapshot.get());
  if (!placement) return;
  const Instant soon = now + context.options.expectation_life;
  if (context.options.expected_placements) {
    context.ledger.reservations().expect(pod.pod.uid, NodeName(node), pod.request, *placement, now,
                                         soon);
  }
  if (pod.pod.uid.empty()) return;
  context.ledger.reservations().reserve(
      pod.pod, {NodeName(node), holds(found->node, pod.request, *placement), pod.resources},
      NodeName(sent.nominated_node), now + kReservationLife,
      binds_later(pod, sent) ? std::optional(soon) : std::nullopt);
}

void offer_on(std::span<const std::string_view> nodes, const PodRequest& pod, const kube::Pod& sent,
              const VerbContext& context, Instant now) {
  if (!sent.constrained || pod.pod.uid.empty()) return;
  const auto price_snapshot = context.prices.current();
  std::vector<NominatedPlacement> placements;
  for (const std::string_view node : nodes.first(std::min(nodes.size(), kNominatedNodesMax))) {
    const auto found = context.ledger.reader().node_for(node, pod.pod);
    if (!found) continue;
    const auto placement = place_on(found->available(), pod, price_snapshot.get());
    if (!placement) continue;
    placements.push_back(
        {NodeName(node), holds(found->node, pod.request, *placement), pod.resources});
  }
  context.ledger.reservations().offer_nomination(
      pod.pod, std::move(placements), NodeName(sent.nominated_node), now + kReservationLife);
}

std::optional<Placement> place_on(const Node& node, const PodRequest& pod,
                                  const PriceSnapshot* price_snapshot) {
  SearchBudget budget{kPlacementStepsMax};
  auto answer = place(node, pod.context(price_snapshot), *pod.policy.card, budget);
  auto* placed = std::get_if<Placed>(&answer);
  if (placed == nullptr) return std::nullopt;
  return std::move(placed->placement);
}

}  // namespace mgpu::extender
