#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "common/contract/quantity.h"
#include "extender/kubectl/convert/limits.h"
#include "extender/kubectl/convert/pod.h"

namespace mgpu::kubectl::convert {
namespace {

const std::string* amount_in(const kube::StringMap& amounts, std::string_view name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? nullptr : &found->second;
}

bool has_any(const kube::StringMap& amounts, const std::vector<std::string>& names) {
  return std::ranges::any_of(names,
                             [&](const std::string& name) { return amounts.contains(name); });
}

bool uses(const Pod& pod, const std::vector<std::string>& names) {
  return std::ranges::any_of(pod.containers, [&](const Container& one) {
    return has_any(one.limits, names) || has_any(one.requests, names);
  });
}

bool equal_quantities(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto first = canonical_quantity(a);
  const auto second = canonical_quantity(b);
  return first && second && first->value == second->value;
}

Result<void> check_equal(const Container& container, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string* const limit = amount_in(container.limits, name);
    const std::string* const request = amount_in(container.requests, name);
    if (limit == nullptr || request == nullptr || equal_quantities(*limit, *request)) continue;
    return error(fmt::format("has limits {} {} and requests {}; expected equal amounts", name,
                             *limit, *request));
  }
  return {};
}

// The amounts in the order of the names. A limit counts before a request.
Result<std::vector<std::int64_t>> read_amounts(const Container& container,
                                               const Vocabulary& vocabulary) {
  if (auto ok = check_equal(container, vocabulary.names); !ok) return ok.error();
  std::vector<std::int64_t> amounts;
  for (const std::string& name : vocabulary.names) {
    const std::string* text = amount_in(container.limits, name);
    if (text == nullptr) text = amount_in(container.requests, name);
    const auto amount =
        text == nullptr ? Result<std::int64_t>(0) : parse_whole_quantity(name, *text);
    if (!amount || *amount > kForeignAmountMax) {
      return error(fmt::format("requests {} {}; expected a whole number from 0 to {}", name, *text,
                               kForeignAmountMax));
    }
    amounts.push_back(*amount);
  }
  for (const std::string& name : vocabulary.others) {
    if (!container.limits.contains(name) && !container.requests.contains(name)) continue;
    return error(fmt::format("requests {}, which has no equal in mgpu", name));
  }
  return amounts;
}

// The numbers of cards of the app containers with parts of several, "train=2".
std::string split_of(const Pod& pod, const std::vector<Plan>& plans) {
  std::vector<std::string> splits;
  for (std::size_t i = 0; i < pod.apps; ++i) {
    const auto& [cards, core] = std::pair(plans[i].cards, plans[i].core);
    if (cards > 1 && core < 100 * cards) {
      splits.push_back(fmt::format("{}={}", pod.containers[i].name, cards));
    }
  }
  return fmt::format("{}", fmt::join(splits, ","));
}

Result<Plan> plan_container(const Pod& pod, std::size_t index, const Vocabulary& vocabulary,
                            const ConvertOptions& options) {
  const Container& container = pod.containers[index];
  const auto amounts = read_amounts(container, vocabulary);
  if (!amounts) return amounts.error();
  auto plan = vocabulary.plan({container, *amounts}, pod, options);
  if (!plan) return plan.error();
  if (index >= pod.apps && plan->cards > 1 && plan->core < 100 * plan->cards) {
    return error(
        fmt::format("is an init container with parts of {} cards; expected one card, or whole ones",
                    plan->cards));
  }
  return plan;
}

// Replaces the amounts in limits, and in requests, where they were. Empty if there were none.
std::string apply_plan(Container& container, const Plan& plan, const Vocabulary& vocabulary,
                       const Contract& contract) {
  std::string before;
  for (const std::string& name : vocabulary.names) {
    const std::string* text = amount_in(container.limits, name);
    if (text == nullptr) text = amount_in(container.requests, name);
    if (text != nullptr) before += fmt::format("{}{} {}", before.empty() ? "" : ", ", name, *text);
  }
  if (before.empty()) return "";
  for (kube::StringMap* side : {&container.limits, &container.requests}) {
    if (!has_any(*side, vocabulary.names)) continue;
    for (const std::string& name : vocabulary.names) side->erase(name);
    if (plan.core > 0) (*side)[contract.core_resource] = std::to_string(plan.core);
    if (plan.memory > 0) (*side)[contract.memory_resource] = std::to_string(plan.memory);
  }
  std::string after = "no cards";
  if (plan.core > 0) after = fmt::format("{} {}", contract.core_resource, plan.core);
  if (plan.memory > 0) after += fmt::format(", {} {}", contract.memory_resource, plan.memory);
  return fmt::format("container \"{}\" requests {} instead of {}", container.name, after, before);
}

void apply_annotations(Pod& pod, const AnnotationPlan& plan, std::vector<std::string>& changes) {
  for (const std::string& key : plan.removed) {
    pod.annotations.erase(key);
    changes.push_back(fmt::format("annotation {} is removed", key));
  }
  for (const auto& [key, value] : plan.added) {
    pod.annotations[key] = value;
    changes.push_back(fmt::format("annotation {} is \"{}\"", key, value));
  }
}

void apply_scheduler(Pod& pod, const ConvertOptions& options, std::vector<std::string>& changes) {
  const std::string before = pod.scheduler.empty() ? "default-scheduler" : pod.scheduler;
  if (before == options.scheduler) return;
  if (before != "default-scheduler" && before != "hami-scheduler") return;
  pod.scheduler = options.scheduler;
  changes.push_back(fmt::format("schedulerName is {} instead of {}", options.scheduler, before));
}

Result<void> rewrite_one(Pod& pod, const Vocabulary& vocabulary, const ConvertOptions& options,
                         std::vector<std::string>& changes) {
  const Contract& contract = options.contract;
  if (uses(pod, {contract.core_resource, contract.memory_resource}) ||
      pod.annotations.contains(contract.container_multiple_gpu)) {
    return error(fmt::format(
        "the pod has requests or annotations of {} as well; expected those of one vocabulary",
        contract.domain));
  }
  auto annotations = vocabulary.plan_annotations(pod, options);
  if (!annotations) return annotations.error();
  std::vector<Plan> plans;
  for (std::size_t i = 0; i < pod.containers.size(); ++i) {
    const auto plan = plan_container(pod, i, vocabulary, options);
    if (!plan) {
      return error(
          fmt::format("container \"{}\" {}", pod.containers[i].name, plan.error().message));
    }
    plans.push_back(*plan);
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    auto change = apply_plan(pod.containers[i], plans[i], vocabulary, contract);
    if (!change.empty()) changes.push_back(std::move(change));
  }
  if (const std::string split = split_of(pod, plans); !split.empty()) {
    annotations->added[contract.container_multiple_gpu] = split;
  }
  apply_annotations(pod, *annotations, changes);
  const bool has_cards = std::ranges::any_of(plans, [](const Plan& p) { return p.core > 0; });
  if (has_cards) apply_scheduler(pod, options, changes);
  return {};
}

}  // namespace

bool Amounts::has(std::string_view name) const {
  return container.limits.contains(name) || container.requests.contains(name);
}

Result<std::vector<std::string>> rewrite(Pod& pod, const ConvertOptions& options) {
  std::vector<std::string> changes;
  for (const Vocabulary& vocabulary : vocabularies()) {
    if (!uses(pod, vocabulary.names)) continue;
    if (auto ok = rewrite_one(pod, vocabulary, options, changes); !ok) return ok.error();
  }
  return changes;
}

}  // namespace mgpu::kubectl::convert
