#include "extender/placement/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/base/text.h"
#include "extender/placement/policies/policies.h"

namespace mgpu::extender {
namespace {

constexpr std::array kPolicies{&kEquilibrium, &kBinpack, &kSpread};

const Policy* find_one(std::string_view name, Policies known) {
  const auto at = std::ranges::find(known, name, &Policy::name);
  return at == known.end() ? nullptr : *at;
}

}  // namespace

std::uint32_t card_steps(const Policy& policy, const PlacementContext& context, const Node& node) {
  return policy.steps == nullptr ? 1 : policy.steps(context, node);
}

std::uint32_t node_steps(const Policy& policy, const PlacementContext& context, const Node& node) {
  return 2 * card_steps(policy, context, node) + static_cast<std::uint32_t>(node.cards.size());
}

Result<PolicyChoice> find_policy(std::string_view name) {
  auto choice = find_policy(name, kPolicies);
  if (choice) return choice;
  return error(choice.error().message + "; the published policies are only in mgpu-sim trace");
}

Result<PolicyChoice> find_policy(std::string_view name, Policies known) {
  const std::size_t slash = name.find('/');
  const bool two = slash != std::string_view::npos;
  const PolicyChoice choice{find_one(name.substr(0, slash), known),
                            find_one(two ? name.substr(slash + 1) : name, known)};
  if (choice.node != nullptr && choice.card != nullptr) return choice;
  std::string names;
  for (const Policy* policy : known) names += std::string(policy->name) + ", ";
  return error(fmt::format("policy must be {}or <node policy>/<card policy>, found {}", names,
                           in_quotes(name)));
}

bool follows_profile(const Node& node, const GpuRequest& request) {
  return node.node_policy != nullptr && !request.empty() && request.policy.empty();
}

PolicyChoice policy_on(const Node& node, const GpuRequest& request, const PolicyChoice& choice) {
  if (!follows_profile(node, request)) return choice;
  return {node.node_policy, node.card_policy};
}

std::uint8_t number_of(const Policy& policy) {
  return static_cast<std::uint8_t>(std::ranges::find(kPolicies, &policy) - kPolicies.begin() + 1);
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const Policy* policy : kPolicies) names.push_back(policy->name);
  return names;
}

}  // namespace mgpu::extender
